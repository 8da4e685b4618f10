"""Corpora to a workspace's data, stage by stage: the front door of `mtkit prepare`.

text/       cleaned pairs or lines of one language,
            duplicates marked                        depends on corpora, cleaning, held-out sets
differences/  where text is selected: how like
            one's own each row is                    depends on text, language models
selection/  likewise: which rows are kept            depends on differences, `keep`
aligner/    with `data.word_aligner`: which
            words translate which                    depends on text, selection
alignment/  where attention is guided, or terms
            come from alignments: which words of
            each pair are aligned                    depends on text, selection
terms/      where they come from alignments: terms
            with their translations                  depends on alignment
tokenizer/  SentencePiece models                     depends on text, [tokenizer], seed; or on the
                                                     model whose vocabulary is kept, symbols, tags
train/      tokens of the training pairs, or blocks
            of the text's documents                  depends on text, tokenizer, tags, max_tokens
dev/        the development set, as tokens and text  depends on it and on the tokenizer
"""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mtkit.console import open_console, say, warn
from mtkit.data.batches.epoch import plan_epoch
from mtkit.data.batches.length_order import LengthOrder
from mtkit.data.batches.text_blocks import TEXT_COLUMNS
from mtkit.data.batches.token_store import PAIR_COLUMNS
from mtkit.data.preparation.align_text import align_text, learn_aligner
from mtkit.data.preparation.clean_corpora import clean_corpora
from mtkit.data.preparation.collect_terms import LEXICON_FILE, CollectingJob, collect_terms
from mtkit.data.preparation.facts import (
    DifferencesFacts,
    PreparedFacts,
    SelectionFacts,
    TokenizerFacts,
    TrainFacts,
)
from mtkit.data.preparation.held_out import prepare_dev
from mtkit.data.preparation.labelled_text import label_corpora
from mtkit.data.preparation.make_tokenizer import make_tokenizer
from mtkit.data.preparation.report import EpochSize, Report, TextEpochSize
from mtkit.data.preparation.report_page import write_report
from mtkit.data.preparation.report_table import show_report
from mtkit.data.preparation.stage_keys import compute_stage_key
from mtkit.data.preparation.stages import clear_stages, read_record, run_stage
from mtkit.data.preparation.tokenize_blocks import tokenize_blocks
from mtkit.data.preparation.tokenize_examples import prepare_labelled_dev, tokenize_examples
from mtkit.data.preparation.tokenize_text import TokenizingJob, tokenize_text
from mtkit.data.prepared import (
    FACTS_FILE,
    FORMAT_VERSION,
    STAGES,
    Stage,
    describe_inputs,
    fingerprint,
    list_stages,
    read_dev_side,
    read_facts,
)
from mtkit.data.selection.differences import (
    UNFINISHED_FILE,
    ScoringJob,
    open_differences,
    score_text,
)
from mtkit.data.selection.language_models import (
    LanguageModels,
    check_models,
    choose_unit,
    list_classifier,
    list_models,
)
from mtkit.data.selection.select_rows import LEFT_OUT_FILE, select_rows
from mtkit.data.sources.corpora import check_corpus
from mtkit.data.tokenizer_choice import read_reused, reused_folder
from mtkit.digests import digest
from mtkit.errors import MtkitError
from mtkit.files import write_atomically
from mtkit.folders import at_work_alone, put_in_place, remove_folder, restore_retired
from mtkit.processors import count_processors
from mtkit.recipe import Recipe, dump_recipe
from mtkit.text.glossary import read_glossary
from mtkit.workspace import Workspace

_MAX_NOTES = 5
"""Of a dictionary, that are printed."""


def prepare(
    recipe: Recipe,
    workspace: Workspace,
    *,
    num_workers: int | None = None,
    check: Callable[[str], None] | None = None,
    models: LanguageModels | None = None,
) -> None:
    """Writes tokenizer, tokenised training data and the development set into `workspace.data`.

    Nothing of an earlier `prepare` is touched until all of it is done; stages that nothing new
    bears on are taken over.

    Args:
        recipe: Whose data to prepare.
        workspace: Where they go.
        num_workers: Processes that clean and tokenise; as many as there are processors for
                this one where None.
        check: Called with the new data's digest before they replace the old ones; may raise.
        models: What runs the language models of `data.cleaning.selection`; needed where a recipe
            has that.

    Raises:
        MtkitError: A corpus that can't be read, of which nothing is left, or that is too small for
            the tokenizer; a language model that can't be used; another `prepare` at work in the
            same workspace.
    """
    if not is_prepared(recipe, workspace):
        # Reported before anything is done, rather than after hours of cleaning, or of training.
        check_inputs(recipe, models)
    workspace.root.mkdir(parents=True, exist_ok=True)
    with at_work_alone(workspace.root, "`mtkit prepare`"):
        _prepare(recipe, workspace, num_workers or count_processors(), check, models)


def check_inputs(recipe: Recipe, models: LanguageModels | None = None) -> None:
    """Checks that the files of all corpora, and a reused vocabulary are there and look readable.

    And the language models by which text is selected.

    Raises:
        MtkitError: One isn't, or doesn't.
    """
    if models is not None:
        check_models(recipe, models)
    folder = reused_folder(recipe)
    if folder is not None:
        read_reused(folder, recipe)
    augment = recipe.data.augment
    terms = None if augment is None else augment.terms
    if terms is not None and terms.dictionary is not None:
        for note in read_glossary(terms.dictionary).notes[:_MAX_NOTES]:
            warn(note)
    for corpus in (*recipe.data.train, recipe.data.dev, *recipe.evaluation.test_sets):
        check_corpus(corpus, languages=recipe.data.languages)


def is_prepared(recipe: Recipe, workspace: Workspace) -> bool:
    """Checks that the workspace holds this recipe's data, from input files unchanged since."""
    if read_facts(workspace).get("fingerprint") != fingerprint(recipe):
        return False
    found: PreparedFacts = {}
    for name in list_stages(recipe):
        record = read_record(workspace.data / name)
        if record is None or record["key"] != compute_stage_key(name, recipe, found):
            return False
        found[name] = record["facts"]
    return True


def _prepare(
    recipe: Recipe,
    workspace: Workspace,
    num_workers: int,
    check: Callable[[str], None] | None,
    models: LanguageModels | None,
) -> None:
    restore_retired(workspace.data)
    if is_prepared(recipe, workspace):
        say(f"{workspace.data} is up to date: nothing to do")
        return
    say(f"preparing {recipe.name} in {workspace.data}")
    draft, stages = workspace.data_draft, list_stages(recipe)
    clear_stages(draft, (*stages, UNFINISHED_FILE))
    try:
        facts = _run_stages(recipe, draft, workspace.data, num_workers, models)
    except BaseException:
        # Finished stages stay, and the next `prepare` goes on with them.
        if draft.is_dir() and not any((draft / name).is_dir() for name in stages):
            remove_folder(draft)
        raise
    # Of other text or models, where a finished stage was taken over.
    (draft / UNFINISHED_FILE).unlink(missing_ok=True)
    noted = _list_noted(recipe, facts)
    if check is not None:
        try:
            check(noted["digest"])
        except MtkitError:
            remove_folder(draft)
            raise
    epoch = _measure_epoch(recipe, draft)
    dev_lines = read_dev_side(draft, "text" if recipe.data.is_text else "target")
    report = Report.of(recipe, facts, epoch, dev_lines)
    write_report(report, draft)
    write_atomically(draft / FACTS_FILE, json.dumps(noted, indent=2) + "\n")
    write_atomically(workspace.recipe_file, dump_recipe(recipe))
    workspace.record(
        "prepare",
        {
            "seed": recipe.seed,
            **noted,
            "inputs": describe_inputs((*recipe.data.train, recipe.data.dev)),
            "digests": {name: facts[name]["digest"] for name in stages},
            **report.summary(),
        },
    )
    # Last: where a kill comes between, the next `prepare` does this part again.
    put_in_place(draft, workspace.data)
    show_report(report, open_console())
    say(f"full report, with sample sentences: {workspace.data / 'report.html'}")


def _measure_epoch(recipe: Recipe, draft: Path) -> EpochSize | TextEpochSize:
    """Returns what one pass over the prepared data is."""
    is_text = recipe.data.is_text
    epoch = plan_epoch(
        LengthOrder(draft / "train", TEXT_COLUMNS if is_text else PAIR_COLUMNS),
        weights=[corpus.weight for corpus in recipe.data.train],
        batch_tokens=recipe.training.batch_tokens,
        length_groups=recipe.training.length_groups,
        seed=recipe.seed,
        epoch=0,
    )
    if is_text:
        return TextEpochSize(epoch.num_pairs, epoch.num_target_tokens, len(epoch))
    return EpochSize(
        pairs=epoch.num_pairs,
        source_tokens=epoch.num_source_tokens,
        target_tokens=epoch.num_target_tokens,
        updates=len(epoch),
    )


def _run_stages(
    recipe: Recipe,
    draft: Path,
    earlier: Path,
    num_workers: int,
    models: LanguageModels | None,
) -> PreparedFacts:
    """Finishes every stage in the draft; returns their facts."""
    found: PreparedFacts = {}
    builds: Mapping[Stage, Callable[[Path], Any]]
    if recipe.objective == "classification":
        builds = _choose_for_labels(recipe, draft, found)
    else:
        builds = _choose(recipe, draft, found, num_workers, models)
    for name in list_stages(recipe):
        started_at = time.monotonic()
        key = compute_stage_key(name, recipe, found)
        found[name], is_new = run_stage(draft / name, earlier / name, key, builds[name])
        elapsed_seconds = time.monotonic() - started_at
        say(f"{name}: " + (f"{elapsed_seconds:.1f} s" if is_new else "unchanged, reused"))
    return found


def _choose(
    recipe: Recipe,
    draft: Path,
    found: PreparedFacts,
    num_workers: int,
    models: LanguageModels | None,
) -> Mapping[Stage, Callable[[Path], Any]]:
    """Returns what builds each stage of pairs, or of text in one language."""
    return {
        "text": lambda folder: clean_corpora(recipe, folder, num_workers=num_workers),
        "differences": lambda folder: _measure_differences(
            recipe, draft, found, folder, num_workers=num_workers, models=models
        ),
        "selection": lambda folder: _select(recipe, draft, found, folder),
        "aligner": lambda folder: learn_aligner(
            draft / "text",
            found["text"]["parts"],
            folder,
            left_out=_find_left_out(recipe, draft),
        ),
        "alignment": lambda folder: align_text(
            draft / "text",
            found["text"]["parts"],
            recipe.data.names_alignments,
            folder,
            num_workers=num_workers,
            left_out=_find_left_out(recipe, draft),
        ),
        "terms": lambda folder: collect_terms(
            CollectingJob(draft / "text", draft / "alignment", recipe.data.names_alignments),
            found["text"]["parts"],
            folder,
            num_workers=num_workers,
            left_out=_find_left_out(recipe, draft),
        ),
        "tokenizer": lambda folder: _make_tokenizer(recipe, draft, found, folder),
        "train": lambda folder: _tokenize(
            recipe, draft, found["text"]["parts"], folder, num_workers
        ),
        "dev": lambda folder: prepare_dev(recipe, draft / "tokenizer", folder),
    }


def _choose_for_labels(
    recipe: Recipe, draft: Path, found: PreparedFacts
) -> Mapping[Stage, Callable[[Path], Any]]:
    """Returns what builds each stage of labelled texts."""
    text, tokenizer = draft / "text", draft / "tokenizer"
    return {
        "text": lambda folder: label_corpora(recipe, folder),
        "tokenizer": lambda folder: make_tokenizer(recipe, text, found["text"]["kept"], folder),
        "train": lambda folder: tokenize_examples(recipe, text, tokenizer, found["text"], folder),
        "dev": lambda folder: prepare_labelled_dev(
            recipe, tokenizer, found["text"]["labels"], folder
        ),
    }


def _measure_differences(
    recipe: Recipe,
    draft: Path,
    found: PreparedFacts,
    folder: Path,
    *,
    num_workers: int,
    models: LanguageModels | None,
) -> DifferencesFacts:
    """Writes the cross-entropy difference of each row of the cleaned text.

    Raises:
        MtkitError: A language model was replaced meanwhile.
        ValueError: There is nothing that runs language models.
    """
    if models is None:
        raise ValueError("data.cleaning.selection needs something that runs language models")
    settings = recipe.data.cleaning.selection
    assert settings is not None
    by_column = list_models(recipe)
    classifier = list_classifier(settings)
    job = ScoringJob(draft / "text", by_column, choose_unit(by_column), models, classifier)
    key = compute_stage_key("differences", recipe, found)
    facts = score_text(
        job,
        found["text"]["parts"],
        folder,
        key=key,
        unfinished=draft / UNFINISHED_FILE,
        num_workers=num_workers,
    )
    if compute_stage_key("differences", recipe, found) != key:
        raise MtkitError(
            "a model of data.cleaning.selection was replaced while it measured the text",
            "run the same command again",
        )
    return facts


def _select(recipe: Recipe, draft: Path, found: PreparedFacts, folder: Path) -> SelectionFacts:
    """Marks the rows of the cleaned text that aren't kept."""
    settings = recipe.data.cleaning.selection
    assert settings is not None
    return select_rows(
        settings,
        draft / "text",
        found["text"]["parts"],
        open_differences(draft / "differences"),
        folder,
        unit=found["differences"]["unit"],
    )


def _find_left_out(recipe: Recipe, draft: Path) -> Path | None:
    """Returns the file that marks the rows that aren't selected; None where all are."""
    selects = recipe.data.cleaning.selection is not None
    return draft / "selection" / LEFT_OUT_FILE if selects else None


def _make_tokenizer(
    recipe: Recipe, draft: Path, found: PreparedFacts, folder: Path
) -> TokenizerFacts:
    """Writes the recipe's tokenizer."""
    kept = found["selection"]["kept"] if "selection" in found else found["text"]["kept"]
    return make_tokenizer(
        recipe, draft / "text", kept, folder, left_out=_find_left_out(recipe, draft)
    )


def _tokenize(
    recipe: Recipe, draft: Path, parts: list[tuple[int, int]], folder: Path, num_workers: int
) -> TrainFacts:
    """Writes the tokens of the cleaned text."""
    text, tokenizer = draft / "text", draft / "tokenizer"
    if recipe.data.is_text:
        return tokenize_blocks(
            recipe,
            text,
            tokenizer,
            parts,
            folder,
            num_workers=num_workers,
            left_out=_find_left_out(recipe, draft),
        )
    job = TokenizingJob(
        text=text,
        tokenizer=tokenizer,
        tags=tuple(corpus.tag for corpus in recipe.data.train),
        languages=recipe.data.languages,
        max_tokens=recipe.data.cleaning.max_tokens,
        sampling=recipe.tokenizer.sampling,
        seed=recipe.seed,
        left_out=_find_left_out(recipe, draft),
        alignments=draft / "alignment" if recipe.needs_alignments else None,
        stores_links=recipe.training.guided_alignment is not None,
        names_alignments=recipe.data.names_alignments,
        augment=recipe.data.augment,
        lexicon=draft / "terms" / LEXICON_FILE if recipe.data.aligns_terms else None,
    )
    return tokenize_text(job, parts, folder, num_workers=num_workers)


def _list_noted(recipe: Recipe, facts: PreparedFacts) -> dict[str, Any]:
    """Returns what is kept of a preparation, such as the digest of all that training depends on."""
    # What training depends on beside the stages' files.
    weights = [corpus.weight for corpus in recipe.data.train]
    longest = recipe.data.cleaning.max_tokens if recipe.tokenizer.sampling is not None else 0
    digests = [facts[name]["digest"] for name in STAGES[1:]]
    return {
        "format_version": FORMAT_VERSION,
        "fingerprint": fingerprint(recipe),
        "digest": digest([*digests, weights, longest]),
    }
