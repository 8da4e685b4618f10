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
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mtkit.console import open_console, say, warn
from mtkit.data.preparation.align_text import align_text, learn_aligner
from mtkit.data.preparation.clean_corpora import clean_corpora
from mtkit.data.preparation.collect_terms import LEXICON_FILE, CollectingJob, collect_terms
from mtkit.data.preparation.facts import (
    DifferencesFacts,
    PreparedFacts,
    SelectionFacts,
)
from mtkit.data.preparation.held_out import prepare_dev
from mtkit.data.preparation.labelled_text import label_corpora
from mtkit.data.preparation.make_tokenizer import make_tokenizer
from mtkit.data.preparation.report import Report, measure_epoch
from mtkit.data.preparation.report_page import write_report
from mtkit.data.preparation.report_table import show_report
from mtkit.data.preparation.stage_keys import compute_stage_key
from mtkit.data.preparation.stages import clear_stages, read_record, run_stage
from mtkit.data.preparation.tokenize_blocks import BlockShape, tokenize_blocks
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
from mtkit.data.selection.language_models import LanguageModels, check_models
from mtkit.data.selection.select_rows import LEFT_OUT_FILE, select_rows
from mtkit.data.sources.corpora import check_corpus
from mtkit.data.tokenizer_choice import TokenizerChoice
from mtkit.digests import digest
from mtkit.errors import MtkitError
from mtkit.files import write_atomically
from mtkit.folders import at_work_alone, put_in_place, remove_folder, restore_retired
from mtkit.processors import count_processors
from mtkit.recipe import Recipe, dump_recipe
from mtkit.recipe.test_sets import TestSet
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
        check_inputs(TokenizerChoice.of(recipe), recipe.evaluation.test_sets, models)
    workspace.root.mkdir(parents=True, exist_ok=True)
    with at_work_alone(workspace.root, "`mtkit prepare`"):
        num_workers = num_workers or count_processors()
        _Preparation(recipe, workspace, num_workers, models).run(check)


def check_inputs(
    choice: TokenizerChoice, test_sets: Sequence[TestSet], models: LanguageModels | None = None
) -> None:
    """Checks that the files of all corpora, and a reused vocabulary are there and look readable.

    And the language models by which text is selected.

    Raises:
        MtkitError: One isn't, or doesn't.
    """
    data = choice.data
    if models is not None:
        check_models(data, models)
    if choice.reused_folder is not None:
        choice.read_reused()
    if data.dictionary is not None:
        for note in read_glossary(data.dictionary).notes[:_MAX_NOTES]:
            warn(note)
    for corpus in (*data.train, data.dev, *test_sets):
        check_corpus(corpus, languages=data.languages)


def is_prepared(recipe: Recipe, workspace: Workspace) -> bool:
    """Checks that the workspace holds this recipe's data, from input files unchanged since."""
    if read_facts(workspace).get("fingerprint") != fingerprint(recipe):
        return False
    found: PreparedFacts = {}
    is_guided = recipe.training.guided_alignment is not None
    for name in list_stages(recipe.data, is_guided=is_guided):
        record = read_record(workspace.data / name)
        if record is None or record["key"] != compute_stage_key(name, recipe, found):
            return False
        found[name] = record["facts"]
    return True


class _Preparation:
    """A preparation of a recipe's data, stage by stage.

    Args:
        recipe: Whose data to prepare.
        workspace: Where they go.
        num_workers: Processes that clean and tokenise.
        models: What runs language models.
    """

    def __init__(
        self, recipe: Recipe, workspace: Workspace, num_workers: int, models: LanguageModels | None
    ) -> None:
        self._recipe, self._data, self._workspace = recipe, recipe.data, workspace
        self._num_workers, self._models = num_workers, models
        self._choice = TokenizerChoice.of(recipe)
        self._is_guided = recipe.training.guided_alignment is not None
        self._is_labelled = recipe.objective == "classification"
        short_tokens = recipe.training.masked.short_tokens
        self._shape = BlockShape(recipe.objective, recipe.data.block_tokens, short_tokens)
        self._stages = list_stages(recipe.data, is_guided=self._is_guided)
        self._draft = workspace.data_draft
        self._found: PreparedFacts = {}

    def run(self, check: Callable[[str], None] | None) -> None:
        """Prepares the data, unless they are up to date; see `prepare`."""
        recipe, workspace, draft = self._recipe, self._workspace, self._draft
        restore_retired(workspace.data)
        if is_prepared(recipe, workspace):
            say(f"{workspace.data} is up to date: nothing to do")
            return
        say(f"preparing {recipe.name} in {workspace.data}")
        clear_stages(draft, (*self._stages, UNFINISHED_FILE))
        try:
            self._run_stages()
        except BaseException:
            # Finished stages stay, and the next `prepare` goes on with them.
            if draft.is_dir() and not any((draft / name).is_dir() for name in self._stages):
                remove_folder(draft)
            raise
        # Of other text or models, where a finished stage was taken over.
        (draft / UNFINISHED_FILE).unlink(missing_ok=True)
        noted = self._list_noted()
        if check is not None:
            try:
                check(noted["digest"])
            except MtkitError:
                remove_folder(draft)
                raise
        dev_lines = read_dev_side(draft, "text" if self._data.is_text else "target")
        report = Report.of(
            recipe.name,
            recipe.training,
            self._choice,
            self._found,
            epoch=measure_epoch(draft / "train", self._data, recipe.training, seed=recipe.seed),
            dev_lines=dev_lines,
        )
        write_report(report, draft)
        write_atomically(draft / FACTS_FILE, json.dumps(noted, indent=2) + "\n")
        write_atomically(workspace.recipe_file, dump_recipe(recipe))
        workspace.record(
            "prepare",
            {
                "seed": recipe.seed,
                **noted,
                "inputs": describe_inputs((*self._data.train, self._data.dev)),
                "digests": {name: self._found[name]["digest"] for name in self._stages},
                **report.summary(),
            },
        )
        # Last: where a kill comes between, the next `prepare` does this part again.
        put_in_place(draft, workspace.data)
        show_report(report, open_console())
        say(f"full report, with sample sentences: {workspace.data / 'report.html'}")

    def _run_stages(self) -> None:
        """Finishes every stage in the draft, and collects their facts."""
        for name in self._stages:
            started_at = time.monotonic()
            key = self._compute_key(name)
            folder, earlier = self._draft / name, self._workspace.data / name
            self._found[name], is_new = run_stage(folder, earlier, key, partial(self._build, name))
            elapsed_seconds = time.monotonic() - started_at
            say(f"{name}: " + (f"{elapsed_seconds:.1f} s" if is_new else "unchanged, reused"))

    def _compute_key(self, stage: Stage) -> str:
        return compute_stage_key(stage, self._recipe, self._found)

    @property
    def _left_out(self) -> Path | None:
        """The file that marks the rows that aren't selected; None where all are."""
        selects = self._data.cleaning.selection is not None
        return self._draft / "selection" / LEFT_OUT_FILE if selects else None

    def _build(self, stage: Stage, folder: Path) -> Any:
        """Writes a stage into its folder; returns its facts."""
        test_sets = self._recipe.evaluation.test_sets
        if stage != "text":
            build = self._build_labelled if self._is_labelled else self._build_of_text
            return build(stage, folder)
        if self._is_labelled:
            return label_corpora(self._data, test_sets, folder)
        return clean_corpora(self._choice, test_sets, folder, num_workers=self._num_workers)

    def _build_of_text(self, stage: Stage, folder: Path) -> Any:
        """Writes a stage that is made of cleaned pairs, or of text in one language."""
        text, data, parts = self._draft / "text", self._data, self._found["text"]["parts"]
        left_out, num_workers = self._left_out, self._num_workers
        facts: Any
        match stage:
            case "differences":
                facts = self._measure_differences(folder)
            case "selection":
                facts = self._select(folder)
            case "aligner":
                facts = learn_aligner(text, parts, folder, left_out=left_out)
            case "alignment":
                named = data.names_alignments
                facts = align_text(
                    text, parts, named, folder, num_workers=num_workers, left_out=left_out
                )
            case "terms":
                terms = CollectingJob(text, self._draft / "alignment", data.names_alignments)
                facts = collect_terms(
                    terms, parts, folder, num_workers=num_workers, left_out=left_out
                )
            case "tokenizer":
                kept = self._found.get("selection", self._found["text"])["kept"]
                facts = make_tokenizer(self._choice, text, kept, folder, left_out=left_out)
            case "train" if data.is_text:
                facts = tokenize_blocks(
                    self._shape,
                    text,
                    self._draft / "tokenizer",
                    parts,
                    folder,
                    num_corpora=len(data.train),
                    num_workers=num_workers,
                    left_out=left_out,
                )
            case "train":
                facts = tokenize_text(self._make_job(), parts, folder, num_workers=num_workers)
            case _:
                facts = prepare_dev(data, self._shape, self._draft / "tokenizer", folder)
        return facts

    def _build_labelled(self, stage: Stage, folder: Path) -> Any:
        """Writes a stage that is made of labelled texts."""
        text, tokenizer, found = (
            self._draft / "text",
            self._draft / "tokenizer",
            self._found["text"],
        )
        if stage == "tokenizer":
            return make_tokenizer(self._choice, text, found["kept"], folder)
        if stage == "train":
            return tokenize_examples(self._data, text, tokenizer, found, folder)
        return prepare_labelled_dev(self._data, tokenizer, found["labels"], folder)

    def _measure_differences(self, folder: Path) -> DifferencesFacts:
        """Writes the cross-entropy difference of each row of the cleaned text.

        Raises:
            MtkitError: A language model was replaced meanwhile.
            ValueError: There is nothing that runs language models.
        """
        if self._models is None:
            raise ValueError("data.cleaning.selection needs something that runs language models")
        settings = self._data.cleaning.selection
        assert settings is not None
        key = self._compute_key("differences")
        facts = score_text(
            ScoringJob.of(settings, self._draft / "text", self._models),
            self._found["text"]["parts"],
            folder,
            key=key,
            unfinished=self._draft / UNFINISHED_FILE,
            num_workers=self._num_workers,
        )
        if self._compute_key("differences") != key:
            raise MtkitError(
                "a model of data.cleaning.selection was replaced while it measured the text",
                "run the same command again",
            )
        return facts

    def _select(self, folder: Path) -> SelectionFacts:
        """Marks the rows of the cleaned text that aren't kept."""
        settings = self._data.cleaning.selection
        assert settings is not None
        return select_rows(
            settings,
            self._draft / "text",
            self._found["text"]["parts"],
            open_differences(self._draft / "differences"),
            folder,
            unit=self._found["differences"]["unit"],
        )

    def _make_job(self) -> TokenizingJob:
        """Returns what tokenises pairs."""
        data, needs_alignments = self._data, "alignment" in self._stages
        return TokenizingJob(
            text=self._draft / "text",
            tokenizer=self._draft / "tokenizer",
            tags=tuple(corpus.tag for corpus in data.train),
            languages=data.languages,
            max_tokens=data.cleaning.max_tokens,
            sampling=self._recipe.tokenizer.sampling,
            seed=self._recipe.seed,
            left_out=self._left_out,
            alignments=self._draft / "alignment" if needs_alignments else None,
            stores_links=self._is_guided,
            names_alignments=data.names_alignments,
            augment=data.augment,
            lexicon=self._draft / "terms" / LEXICON_FILE if data.aligns_terms else None,
        )

    def _list_noted(self) -> dict[str, Any]:
        """Returns what is kept of a preparation, as the digest of all that training depends on."""
        # What training depends on beside the stages' files.
        weights = [corpus.weight for corpus in self._data.train]
        samples = self._recipe.tokenizer.sampling is not None
        longest = self._data.cleaning.max_tokens if samples else 0
        digests = [self._found[name]["digest"] for name in STAGES[1:]]
        return {
            "format_version": FORMAT_VERSION,
            "fingerprint": fingerprint(self._recipe),
            "digest": digest([*digests, weights, longest]),
        }
