"""Corpora to a workspace's data, stage by stage: the front door of `mtkit prepare`.

text/       cleaned pairs, duplicates marked         depends on corpora, cleaning, held-out sets
tokenizer/  SentencePiece models                     depends on text, [tokenizer], seed; or on the
                                                     model whose vocabulary is kept, symbols, tags
train/      tokens of the training pairs             depends on text, tokenizer, tags, max_tokens
dev/        the development set, as tokens and text  depends on it and on the tokenizer
"""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mtkit.console import open_console, say
from mtkit.data.batches.epoch import plan_epoch
from mtkit.data.batches.length_order import LengthOrder
from mtkit.data.preparation.clean_corpora import clean_corpora
from mtkit.data.preparation.facts import PreparedFacts
from mtkit.data.preparation.held_out import prepare_dev
from mtkit.data.preparation.make_tokenizer import make_tokenizer
from mtkit.data.preparation.report import EpochSize, Report
from mtkit.data.preparation.report_page import write_report
from mtkit.data.preparation.report_table import show_report
from mtkit.data.preparation.stage_keys import compute_stage_key
from mtkit.data.preparation.stages import clear_stages, read_record, run_stage
from mtkit.data.preparation.tokenize_text import TokenizingJob, tokenize_text
from mtkit.data.prepared import (
    FACTS_FILE,
    FORMAT_VERSION,
    STAGES,
    Stage,
    describe_inputs,
    fingerprint,
    read_dev_side,
    read_facts,
)
from mtkit.data.sources.corpora import check_corpus
from mtkit.data.tokenizer_choice import read_reused, reused_folder
from mtkit.digests import digest
from mtkit.errors import MtkitError
from mtkit.files import write_atomically
from mtkit.folders import at_work_alone, put_in_place, remove_folder, restore_retired
from mtkit.processors import count_processors
from mtkit.recipe import Recipe, dump_recipe
from mtkit.workspace import Workspace


def prepare(
    recipe: Recipe,
    workspace: Workspace,
    *,
    num_workers: int | None = None,
    check: Callable[[str], None] | None = None,
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

    Raises:
        MtkitError: A corpus that can't be read, of which nothing is left, or that is too small for
            the tokenizer; another `prepare` at work in the same workspace.
    """
    if not is_prepared(recipe, workspace):
        # Reported before anything is done, rather than after hours of cleaning, or of training.
        check_inputs(recipe)
    workspace.root.mkdir(parents=True, exist_ok=True)
    with at_work_alone(workspace.root, "`mtkit prepare`"):
        _prepare(recipe, workspace, num_workers or count_processors(), check)


def check_inputs(recipe: Recipe) -> None:
    """Checks that the files of all corpora, and a reused vocabulary are there and look readable.

    Raises:
        MtkitError: One isn't, or doesn't.
    """
    folder = reused_folder(recipe)
    if folder is not None:
        read_reused(folder, recipe)
    for corpus in (*recipe.data.train, recipe.data.dev, *recipe.evaluation.test_sets):
        check_corpus(corpus, languages=recipe.data.languages)


def is_prepared(recipe: Recipe, workspace: Workspace) -> bool:
    """Checks that the workspace holds this recipe's data, from input files unchanged since."""
    if read_facts(workspace).get("fingerprint") != fingerprint(recipe):
        return False
    found: PreparedFacts = {}
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
    noted = _list_noted(recipe, facts)
    if check is not None:
        try:
            check(noted["digest"])
        except MtkitError:
            remove_folder(draft)
            raise
    epoch = _measure_epoch(recipe, draft)
    report = Report.of(recipe, facts, epoch, read_dev_side(draft, "target"))
    write_report(report, draft)
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


def _measure_epoch(recipe: Recipe, draft: Path) -> EpochSize:
    """Returns what one pass over the prepared data is."""
    epoch = plan_epoch(
        LengthOrder(draft / "train"),
        weights=[corpus.weight for corpus in recipe.data.train],
        batch_tokens=recipe.training.batch_tokens,
        length_groups=recipe.training.length_groups,
        seed=recipe.seed,
        epoch=0,
    )
    return EpochSize(
        pairs=epoch.num_pairs,
        source_tokens=epoch.num_source_tokens,
        target_tokens=epoch.num_target_tokens,
        updates=len(epoch),
    )


def _run_stages(recipe: Recipe, draft: Path, earlier: Path, num_workers: int) -> PreparedFacts:
    """Finishes every stage in the draft; returns their facts."""
    found: PreparedFacts = {}
    builds: Mapping[Stage, Callable[[Path], Any]] = {
        "text": lambda folder: clean_corpora(recipe, folder, num_workers=num_workers),
        "tokenizer": lambda folder: make_tokenizer(
            recipe, draft / "text", found["text"]["kept"], folder
        ),
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
        "dev": lambda folder: prepare_dev(recipe, draft / "tokenizer", folder),
    }
    for name in STAGES:
        started_at = time.monotonic()
        key = compute_stage_key(name, recipe, found)
        found[name], is_new = run_stage(draft / name, earlier / name, key, builds[name])
        elapsed_seconds = time.monotonic() - started_at
        say(f"{name}: " + (f"{elapsed_seconds:.1f} s" if is_new else "unchanged, taken over"))
    return found


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
