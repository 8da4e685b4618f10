"""Prepares a workspace's data from corpora, stage by stage; pipeline/prepare.py calls it.

synthetic/  with `translated_by`: pairs that a
            translator completes                     depends on corpora, models, `synthesis`
text/       cleaned pairs or lines in one language,
            duplicates marked                        depends on corpora, cleaning, held-out sets
differences/  if text is selected: how close each
            row is to the domain                     depends on text, language models
selection/  if text is selected: the kept rows       depends on differences, `keep`
aligner/    with `data.word_aligner`: which
            words translate which                    depends on text, selection
alignment/  if attention is guided, or terms come
            from alignments: which words of each
            pair are aligned                         depends on text, selection
terms/      if they come from alignments: terms
            with their translations                  depends on alignment
tokenizer/  SentencePiece models                     depends on text, [tokenizer], seed; or on the
                                                     model whose vocabulary is kept, symbols, tags
train/      tokens of the training pairs, or blocks
            of the text's documents                  depends on text, tokenizer, tags, max_tokens
dev/        the development set, as tokens and text  depends on the set and on the tokenizer
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mtkit.console import open_console, say, warn
from mtkit.data.preparation.align_text import ALIGNER, ALIGNMENT
from mtkit.data.preparation.clean_corpora import CLEANED_TEXT
from mtkit.data.preparation.collect_terms import TERMS
from mtkit.data.preparation.dev_set import DEV
from mtkit.data.preparation.make_tokenizer import TOKENIZER
from mtkit.data.preparation.preparation_report import PreparationReport, measure_epoch
from mtkit.data.preparation.report_page import write_pages
from mtkit.data.preparation.report_table import show_report
from mtkit.data.preparation.stage import (
    Preparation,
    ReportSection,
    Stage,
    clear_stages,
    read_record,
    run_stage,
)
from mtkit.data.preparation.teachers import Teachers
from mtkit.data.preparation.text_store import DROPPED_FILE, join_dropped
from mtkit.data.preparation.tokenize_text import TOKENS
from mtkit.data.preparation.translate_corpora import (
    SYNTHETIC,
    UNFINISHED_FOLDER,
    list_teachers,
    translates,
)
from mtkit.data.prepared import (
    FACTS_FILE,
    FORMAT_VERSION,
    describe_inputs,
    fingerprint,
    read_dev_side,
    read_facts,
)
from mtkit.data.selection.differences import DIFFERENCES, UNFINISHED_FILE
from mtkit.data.selection.language_models import LanguageModels, check_models
from mtkit.data.selection.select_rows import SELECTION
from mtkit.data.sources.corpora import check_corpus
from mtkit.data.tokenizer_choice import TokenizerChoice, check_start
from mtkit.errors import MtkitError, explain_system_fault, is_disk_full
from mtkit.executor import ONE_WORKER, Executor
from mtkit.files import as_json_text, digest, write_atomically
from mtkit.folders import commit_draft, exclusive_lock, remove_folder, restore_retired
from mtkit.memory import return_freed_memory
from mtkit.recipe import Recipe, dump_recipe
from mtkit.recipe.corpora import list_translated
from mtkit.recipe.data import Data
from mtkit.recipe.test_sets import TestSet
from mtkit.text.glossary import read_glossary
from mtkit.units import format_memory
from mtkit.workspace import Workspace

STAGES: tuple[Stage, ...] = (
    SYNTHETIC,
    CLEANED_TEXT,
    DIFFERENCES,
    SELECTION,
    ALIGNER,
    ALIGNMENT,
    TERMS,
    TOKENIZER,
    TOKENS,
    DEV,
)
"""All stages, in order; a recipe has those that apply to it, one of each name."""
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip", ".parquet")
_COMPRESSION = 3
"""Bytes of text in a byte of a compressed file."""
_MAX_NOTES = 5
"""Maximum number of notes on a dictionary that are printed."""


def prepare(
    recipe: Recipe,
    workspace: Workspace,
    *,
    executor: Executor = ONE_WORKER,
    check: Callable[[str], None] | None = None,
    models: LanguageModels | None = None,
    teachers: Teachers | None = None,
) -> None:
    """Writes tokenizer, tokenised training data and development set into `workspace.data`.

    Earlier data stays untouched until everything is done; stages with unchanged inputs are reused.
    `check` is called with the new data's digest before it replaces the old data, and may raise.
    `data.cleaning.selection` needs `models`, and `translated_by` needs `teachers`.
    """
    if not is_prepared(recipe, workspace, models, teachers):
        # Reported first, not after hours of cleaning or training.
        check_inputs(TokenizerChoice.of(recipe), recipe.evaluation.test_sets, models)
        check_teachers(recipe.data, teachers)
    workspace.root.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(workspace.root, "`mtkit prepare`"):
        preparation = Preparation(
            recipe, workspace.data_draft, executor, models, teachers, earlier=workspace.data
        )
        try:
            _prepare(preparation, workspace, check)
        except OSError as error:
            if not is_disk_full(error):
                raise
            needed = format_memory(_estimate_bytes((*recipe.data.train, recipe.data.dev)))
            raise MtkitError(
                explain_system_fault(error).message,
                f"these corpora need about {needed}, twice their text: free some space, or choose "
                "another disk with --workspace; then run the same command again: finished work is "
                "kept",
            ) from error


def _estimate_bytes(corpora: tuple[Any, ...]) -> int:
    """Returns about how much space prepared data take: twice the text, uncompressed."""
    return 2 * sum(
        int(each.get("size", 0)) * (_COMPRESSION if each["name"].endswith(_COMPRESSED) else 1)
        for each in describe_inputs(corpora)
    )


def list_changed_files(data: Data, workspace: Workspace) -> tuple[list[str], list[str]]:
    """Returns phrases on the corpora's files that changed since the data were prepared.

    The first list has files of another size, and the second files that may hold the same text:
    those of another time, and compressed ones.
    """
    earlier = workspace.read_manifest().get("prepare", {}).get("inputs", [])
    now = describe_inputs((*data.train, data.dev))
    changed, perhaps = [], []
    # With another number of files they aren't the same ones in the same order.
    for then, file in zip(earlier, now, strict=True) if len(earlier) == len(now) else ():
        name, size, earlier_size = file["name"], file.get("size"), then.get("size")
        if None in (size, earlier_size) or {**then, "name": name} == file:
            continue
        if size == earlier_size or name.endswith(_COMPRESSED):
            perhaps.append(f"{name} has changed")
        else:
            changed.append(f"{then['name']} had {earlier_size:,} bytes, now {name} has {size:,}")
    return changed, perhaps


def check_inputs(
    choice: TokenizerChoice, test_sets: Sequence[TestSet], models: LanguageModels | None = None
) -> None:
    """Checks that corpora, a reused vocabulary and models that select text are readable."""
    data = choice.data
    if models is not None:
        check_models(data, models)
    if choice.reused_folder is None:
        check_start(choice.start_from)
    else:
        choice.read_reused()
    if data.dictionary is not None:
        for note in read_glossary(data.dictionary).notes[:_MAX_NOTES]:
            warn(note)
    for corpus in (*data.train, data.dev, *test_sets):
        check_corpus(corpus, languages=data.languages)


def check_teachers(data: Data, teachers: Teachers | None) -> None:
    """Checks that the models that translate corpora can do so."""
    for corpus in list_translated(data.train):
        if teachers is None:
            raise ValueError("translated_by needs something that translates")
        teachers.check(corpus)


def is_prepared(
    recipe: Recipe,
    workspace: Workspace,
    models: LanguageModels | None = None,
    teachers: Teachers | None = None,
) -> bool:
    """Checks that the workspace holds this recipe's data, and that input files are unchanged."""
    if read_facts(workspace).get("fingerprint") != fingerprint(recipe):
        return False
    preparation = Preparation(recipe, workspace.data, models=models, teachers=teachers)
    for stage in list_stages(preparation):
        record = read_record(workspace.data / stage.name)
        if record is None or record["key"] != stage.compute_key(preparation):
            return False
        preparation.note(stage, record["facts"])
    return True


def list_stages(preparation: Preparation) -> list[Stage]:
    """Returns the stages that prepare a recipe's data, in order."""
    return [stage for stage in STAGES if stage.applies(preparation)]


def list_sections(preparation: Preparation, report: PreparationReport) -> list[ReportSection]:
    """Returns the finished stages' sections of a report; those for a terminal come first."""
    facts, stages = preparation.facts, list_stages(preparation)
    done = [stage for stage in stages if stage.name in facts]
    sections = [part for stage in done for part in stage.describe(report, facts[stage.name])]
    return sorted(sections, key=lambda section: not section.on_terminal)


def _prepare(
    preparation: Preparation, workspace: Workspace, check: Callable[[str], None] | None
) -> None:
    """Prepares the data, unless it is up to date."""
    recipe, data, draft = preparation.recipe, preparation.data, preparation.draft
    found, stages = preparation.found, list_stages(preparation)
    restore_retired(workspace.data)
    if is_prepared(recipe, workspace, preparation.models, preparation.teachers):
        say(f"{workspace.data} is up to date: nothing to do")
        return
    say(f"preparing {recipe.name} in {workspace.data}")
    names = [stage.name for stage in stages]
    clear_stages(draft, (*names, UNFINISHED_FILE, UNFINISHED_FOLDER))
    try:
        for stage in stages:
            _run(stage, preparation, workspace.data / stage.name)
    except BaseException:
        # Finished stages stay, and the next `prepare` continues with them.
        if draft.is_dir() and not any(
            (draft / name).is_dir() for name in (*names, UNFINISHED_FOLDER)
        ):
            remove_folder(draft)
        raise
    # Interrupted work that no stage needs any more.
    (draft / UNFINISHED_FILE).unlink(missing_ok=True)
    remove_folder(draft / UNFINISHED_FOLDER)
    noted = _list_noted(preparation)
    if check is not None:
        try:
            check(noted["digest"])
        except MtkitError:
            remove_folder(draft)
            raise
    report = PreparationReport.of(
        recipe,
        preparation.choice,
        found,
        epoch=measure_epoch(draft / "train", data, recipe.training, seed=recipe.seed),
        dev_lines=read_dev_side(draft, "text" if data.is_text else "target"),
    )
    sections = list_sections(preparation, report)
    write_pages(report, sections, draft)
    join_dropped((draft / name for name in names), draft)
    write_atomically(draft / FACTS_FILE, as_json_text(noted, is_ascii=True))
    write_atomically(workspace.recipe_file, dump_recipe(recipe))
    workspace.record(
        "prepare",
        {
            "seed": recipe.seed,
            **noted,
            "inputs": describe_inputs((*data.train, data.dev)),
            "digests": {
                name: facts["digest"]
                for name, facts in preparation.facts.items()
                if "digest" in facts
            },
            **report.summary(),
            **({"teachers": list_teachers(preparation)} if translates(preparation) else {}),
        },
    )
    # Last: after a kill before this, the next `prepare` repeats this part.
    commit_draft(draft, workspace.data)
    show_report(report, sections, open_console())
    say(
        f"full report, with sample sentences: {workspace.data / 'report.html'}; all dropped "
        f"{report.unit}s: {workspace.data / DROPPED_FILE}"
    )


def _run(stage: Stage, preparation: Preparation, earlier: Path) -> None:
    """Finishes a stage in the draft, or reuses an earlier preparation's."""
    started_at = time.monotonic()
    key, build = stage.compute_key(preparation), partial(stage.build, preparation)
    facts, is_new = run_stage(preparation.draft / stage.name, earlier, key, build)
    preparation.note(stage, facts)
    # Learning a tokenizer or an aligner takes hundreds of megabytes, which workers can use now.
    return_freed_memory()
    elapsed_seconds = time.monotonic() - started_at
    say(f"{stage.name}: " + (f"{elapsed_seconds:.1f} s" if is_new else "unchanged, reused"))


def _list_noted(preparation: Preparation) -> dict[str, Any]:
    """Returns what is kept of a preparation, with the digest of all that training depends on."""
    recipe, found = preparation.recipe, preparation.found
    # Training depends on these as well as the stages' files.
    weights = [corpus.weight for corpus in recipe.data.train]
    longest = 0 if recipe.tokenizer.sampling is None else recipe.data.cleaning.max_tokens
    digests = [found[name]["digest"] for name in ("tokenizer", "train", "dev")]
    return {
        "format_version": FORMAT_VERSION,
        "fingerprint": fingerprint(recipe),
        "digest": digest([*digests, weights, longest]),
    }
