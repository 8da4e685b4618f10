"""Corpora to a workspace's data, stage by stage: the front door of `mtkit prepare`.

text/       cleaned pairs, duplicates marked         depends on corpora, cleaning, held-out sets
tokenizer/  SentencePiece models                     depends on text, [tokenizer], seed; or on the
                                                     model whose vocabulary is kept, symbols, tags
train/      tokens of the training pairs             depends on text, tokenizer, tags, max_tokens
dev/        the development set, as tokens and text  depends on it and on the tokenizer
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

from mtkit.console import open_console, say
from mtkit.data.batches.epoch import plan_epoch
from mtkit.data.batches.length_order import LengthOrder
from mtkit.data.batches.token_store import PAIR_COLUMNS, TokenStoreWriter, make_batch
from mtkit.data.preparation.clean_corpora import clean_corpora
from mtkit.data.preparation.report import Epoch, Report, show_report, write_report
from mtkit.data.preparation.stage_keys import compute_stage_key
from mtkit.data.preparation.stages import Facts, Stages, clear_stages, read_record
from mtkit.data.preparation.text_store import TextStore
from mtkit.data.preparation.tokenize_text import (
    TokenizingJob,
    choose_widths,
    tokenize_dev,
    tokenize_text,
)
from mtkit.data.prepared import (
    FACTS_FILE,
    FORMAT_VERSION,
    STAGES,
    describe_inputs,
    fingerprint,
    read_dev_side,
    read_facts,
)
from mtkit.data.reused_vocabulary import (
    read_reused,
)
from mtkit.data.sources.corpora import check_corpus, read_pairs
from mtkit.data.tokenizer_choice import (
    find_tokenizer,
    list_tags,
    punctuation_languages,
    reused_folder,
)
from mtkit.digests import digest, digest_file
from mtkit.errors import MtkitError
from mtkit.files import write_atomically
from mtkit.folders import at_work_alone, put_in_place, remove_folder, restore_retired
from mtkit.processors import count_processors
from mtkit.recipe import Recipe, dump_recipe
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.train_tokenizer import train_tokenizer
from mtkit.workspace import Workspace

_TOKENIZER_SAMPLE_STREAM = 1


def prepare(
    recipe: Recipe,
    workspace: Workspace,
    *,
    num_workers: int | None = None,
    check: Callable[[str], None] | None = None,
) -> None:
    """Leaves tokenizer, tokenised training data and the development set in `workspace.data`.

    Nothing of an earlier `prepare` is touched until all of it is done; stages that nothing new
    bears on are taken over.

    Args:
        recipe: Whose data to prepare.
        workspace: Where they go.
        num_workers: Processes that clean and tokenise; as many as there are processors for
                this one where None.
        check: Is told the new data's digest before they take the old ones' place, and may raise.

    Raises:
        MtkitError: A corpus that can't be read, of which nothing is left, or that is too small for
            the tokenizer; another `prepare` at work in the same workspace.
    """
    if not is_prepared(recipe, workspace):
        # Told before anything is done, rather than after hours of cleaning, or of training.
        check_inputs(recipe)
    workspace.root.mkdir(parents=True, exist_ok=True)
    with at_work_alone(workspace.root, "`mtkit prepare`"):
        _prepare(recipe, workspace, num_workers or count_processors(), check)


def check_inputs(recipe: Recipe) -> None:
    """Checks that the files of all corpora, and of a kept vocabulary, are there and look readable.

    Raises:
        MtkitError: One isn't, or doesn't.
    """
    folder = reused_folder(recipe)
    if folder is not None:
        read_reused(folder, recipe)
    for corpus in (*recipe.data.train, recipe.data.dev, *recipe.evaluation.test_sets):
        check_corpus(
            corpus,
            source_language=recipe.data.source_language,
            target_language=recipe.data.target_language,
        )


def is_prepared(recipe: Recipe, workspace: Workspace) -> bool:
    """Returns whether the workspace holds this recipe's data, from input files unchanged since."""
    if read_facts(workspace).get("fingerprint") != fingerprint(recipe):
        return False
    found: dict[str, Facts] = {}
    for name in STAGES:
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
) -> None:
    restore_retired(workspace.data)
    if is_prepared(recipe, workspace):
        say(f"{workspace.data} is up to date: nothing to do")
        return
    say(f"preparing {recipe.name} in {workspace.data}")
    draft = workspace.data_draft
    clear_stages(draft, STAGES)
    try:
        facts = _run_stages(recipe, draft, workspace.data, num_workers)
    except BaseException:
        # Finished stages stay, and the next `prepare` goes on with them.
        if draft.is_dir() and not any((draft / name).is_dir() for name in STAGES):
            remove_folder(draft)
        raise
    if check is not None:
        try:
            check(facts["digest"])
        except MtkitError:
            remove_folder(draft)
            raise
    epoch = _measure_epoch(recipe, draft)
    report = Report.of(recipe, facts, epoch, read_dev_side(draft, "target"))
    write_report(report, draft)
    noted = {key: facts[key] for key in ("format_version", "fingerprint", "digest")}
    write_atomically(draft / FACTS_FILE, json.dumps(noted, indent=2) + "\n")
    write_atomically(workspace.recipe_file, dump_recipe(recipe))
    workspace.record(
        "prepare",
        {
            "seed": recipe.seed,
            **noted,
            "inputs": describe_inputs((*recipe.data.train, recipe.data.dev)),
            "digests": {name: facts[name]["digest"] for name in STAGES},
            **report.summary(),
        },
    )
    # Last: where a kill comes between, the next `prepare` does this part again.
    put_in_place(draft, workspace.data)
    show_report(report, open_console())
    say(f"all of it, with sentences to read: {workspace.data / 'report.html'}")


def _measure_epoch(recipe: Recipe, draft: Path) -> Epoch:
    """Returns what one pass over the prepared data is."""
    epoch = plan_epoch(
        LengthOrder(draft / "train"),
        weights=[corpus.weight for corpus in recipe.data.train],
        batch_tokens=recipe.training.batch_tokens,
        length_groups=recipe.training.length_groups,
        seed=recipe.seed,
        epoch=0,
    )
    return Epoch(
        pairs=epoch.num_pairs,
        source_tokens=epoch.num_source_tokens,
        target_tokens=epoch.num_target_tokens,
        updates=len(epoch),
    )


def _run_stages(recipe: Recipe, draft: Path, earlier: Path, num_workers: int) -> Facts:
    """Leaves every stage finished in the draft; returns their facts."""
    stages = Stages(draft, earlier)
    builds: dict[str, Callable[[Path], Facts]] = {
        "text": lambda folder: clean_corpora(recipe, folder, num_workers=num_workers),
        "tokenizer": lambda folder: _make_tokenizer(recipe, draft, found["text"], folder),
        "train": lambda folder: tokenize_text(
            TokenizingJob(
                text=draft / "text",
                tokenizer=draft / "tokenizer",
                tags=tuple(corpus.tag for corpus in recipe.data.train),
                max_tokens=recipe.data.cleaning.max_tokens,
                sampling=recipe.tokenizer.sampling,
                seed=recipe.seed,
            ),
            found["text"]["parts"],
            folder,
            num_workers=num_workers,
        ),
        "dev": lambda folder: _tokenize_dev(recipe, draft, folder),
    }
    found: dict[str, Facts] = {}
    for name in STAGES:
        started_at = time.monotonic()
        stage = stages.run(name, compute_stage_key(name, recipe, found), builds[name])
        elapsed_seconds = time.monotonic() - started_at
        say(f"{name}: " + (f"{elapsed_seconds:.1f} s" if stage.is_new else "unchanged, taken over"))
        found[name] = stage.facts
    # What training depends on beside the stages' files.
    weights = [corpus.weight for corpus in recipe.data.train]
    longest = recipe.data.cleaning.max_tokens if recipe.tokenizer.sampling is not None else 0
    return {
        "format_version": FORMAT_VERSION,
        "fingerprint": fingerprint(recipe),
        "digest": digest([*(found[name]["digest"] for name in STAGES[1:]), weights, longest]),
        **found,
    }


def _make_tokenizer(recipe: Recipe, draft: Path, text: Facts, folder: Path) -> Facts:
    """Leaves a tokenizer trained on a sample of the cleaned text, or one that there is already."""
    punctuation = punctuation_languages(recipe)
    tokenizer, reused = find_tokenizer(recipe, punctuation), reused_folder(recipe)
    if tokenizer is None:
        store = TextStore(draft / "text")
        size = min(max(1, recipe.tokenizer.max_training_sentences // 2), text["kept"])
        say(f"training the tokenizer on {size:,} pairs")
        seed = [recipe.seed, _TOKENIZER_SAMPLE_STREAM]
        tokenizer = train_tokenizer(
            recipe.tokenizer,
            store.sample("source", size, text["kept"], seed=seed),
            store.sample("target", size, text["kept"], seed=seed),
            seed=recipe.seed,
            tags=list_tags(recipe),
            punctuation=punctuation,
        )
    elif reused is not None:
        added = tokenizer.source_vocabulary.pieces[read_reused(reused, recipe).source_vocab_size :]
        addition = f", with {' '.join(added)} added" if added else ""
        say(f"keeping the vocabulary of {reused}{addition}")
    tokenizer.save(folder)
    return {
        "source_pieces": tokenizer.source_vocab_size,
        "target_pieces": tokenizer.target_vocab_size,
        "joint": tokenizer.is_joint,
        "digest": [digest_file(path) for path in sorted(folder.iterdir())],
    }


def _tokenize_dev(recipe: Recipe, draft: Path, folder: Path) -> Facts:
    """Leaves the development set as tokens, for its loss, and as text, for its score."""
    tokenizer = SubwordTokenizer.load(draft / "tokenizer")
    dev = recipe.data.dev
    pairs = list(
        read_pairs(
            dev,
            phrasebook_split="dev",
            source_language=recipe.data.source_language,
            target_language=recipe.data.target_language,
        )
    )
    tokens = tokenize_dev(tokenizer, recipe, pairs)
    widths = choose_widths(tokenizer)
    with TokenStoreWriter(folder, widths) as store:
        store.append(make_batch(tokens, widths), corpus=0)
    for column, lines in zip(PAIR_COLUMNS, zip(*pairs, strict=True), strict=True):
        write_atomically(folder / f"{column}.txt", "".join(f"{line}\n" for line in lines))
    return {
        "read": len(pairs),
        "kept": len(tokens["source"]),
        **{f"{column}_tokens": len(found.tokens) for column, found in tokens.items()},
        "digest": digest(pairs),
    }
