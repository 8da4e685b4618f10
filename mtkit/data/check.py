"""Runs the stages of preparation on a sample of each corpus: `mtkit prepare --check`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import mul
from pathlib import Path
from tempfile import TemporaryDirectory

from mtkit.data.preparation.preparation_report import (
    EpochSize,
    PreparationReport,
    TextEpochSize,
    measure_epoch,
)
from mtkit.data.preparation.stage import CorpusSample, Preparation, ReportSection, needs_alignments
from mtkit.data.preparation.teachers import Teachers
from mtkit.data.preparation.translate_corpora import are_all_left_out
from mtkit.data.prepare import list_sections, list_stages
from mtkit.data.prepared import read_dev_side
from mtkit.data.selection.language_models import LanguageModels, check_models
from mtkit.data.sources.corpora import check_corpus, input_files
from mtkit.data.tokenizer_choice import check_start
from mtkit.errors import MtkitError
from mtkit.executor import ONE_WORKER, Executor
from mtkit.recipe import Recipe

_ROWS_PER_BLOCK = 1_000
_MAX_BLOCKS = 64
_SAME_SIZE = ("tokenizer", "dev", "aligner")
"""Stages whose data don't grow with the corpora."""
_MAX_SLOW_BLOCKS = 5
"""Blocks of each corpus if models rank them or words are aligned, which is slow."""


@dataclass(frozen=True)
class CheckFindings:
    """The findings of a check.

    Attributes:
        report: The report on the sample; None if a fault ended the check early.
        faults: What would end `mtkit prepare`.
        num_bytes: Estimated size of all prepared data on disk.
    """

    report: PreparationReport | None
    sections: Sequence[ReportSection]
    faults: Sequence[MtkitError]
    num_bytes: int


def check_recipe_data(
    recipe: Recipe,
    *,
    executor: Executor = ONE_WORKER,
    models: LanguageModels | None = None,
    teachers: Teachers | None = None,
) -> CheckFindings:
    """Returns what preparing a recipe's data would find; leaves nothing on disk.

    Reads every row, and prepares up to 64,000 evenly spread rows of each corpus, or 5,000 if models
    rank them or words are aligned, and translates up to 200 lines of those that name a translator.
    `data.cleaning.selection` needs `models`, and `translated_by` needs `teachers`.
    """
    with TemporaryDirectory(prefix="mtkit-check-") as folder:
        preparation = Preparation(recipe, Path(folder), executor, models, teachers)
        is_slow = models is not None or recipe.data.word_aligner or needs_alignments(preparation)
        sample = CorpusSample(_MAX_SLOW_BLOCKS if is_slow else _MAX_BLOCKS, _ROWS_PER_BLOCK)
        preparation = replace(preparation, sample=sample)
        if preparation.choice.reused_folder is None:
            with preparation.listing_faults():
                check_start(recipe.training.start_from)
        unreadable: list[str] = []
        for corpus in (*recipe.data.train, recipe.data.dev):
            num_faults = len(preparation.faults)
            with preparation.listing_faults():
                check_corpus(corpus, languages=recipe.data.languages)
            if len(preparation.faults) > num_faults:
                unreadable += map(str, input_files(corpus))
        num_faults = len(preparation.faults)
        with preparation.listing_faults():
            if models is not None:
                check_models(recipe.data, models)
            for stage in list_stages(preparation):
                stage_folder = preparation.draft / stage.name
                stage_folder.mkdir()
                preparation.note(stage, stage.build(preparation, stage_folder))
                if are_all_left_out(preparation):
                    break
        report, sections = None, []
        if "text" in preparation.found:
            report = _describe(preparation, sample)
            sections = list_sections(preparation, report)
        num_bytes = _estimate_bytes(preparation.draft, sample)
    # The stages report an unreadable corpus again, for example as one with too few lines.
    faults = [
        fault
        for number, fault in enumerate(preparation.faults)
        if number < num_faults or not fault.message.startswith(tuple(unreadable))
    ]
    return CheckFindings(report, sections, faults, num_bytes)


def _estimate_bytes(draft: Path, sample: CorpusSample) -> int:
    """Returns the size of all data on disk, from that of a sample's."""
    growth = sample.num_rows.total() / max(1, sample.num_chosen.total())
    num_bytes = 0.0
    for path in draft.rglob("*"):
        if path.is_file():
            grows = path.relative_to(draft).parts[0] not in _SAME_SIZE
            num_bytes += path.stat().st_size * (growth if grows else 1.0)
    return round(num_bytes)


def _describe(preparation: Preparation, sample: CorpusSample) -> PreparationReport:
    recipe, data, found = preparation.recipe, preparation.data, preparation.found
    epoch, dev_lines = None, []
    if "dev" in found:
        epoch = _estimate_epoch(preparation, sample)
        dev_lines = read_dev_side(preparation.draft, "text" if data.is_text else "target")
    report = PreparationReport.of(
        recipe,
        preparation.choice,
        found,
        epoch=epoch,
        dev_lines=dev_lines,
        is_sample=True,
    )
    unit = report.unit
    notes = [
        f"{facts['name']}: checked {sample.num_chosen[index]:,} evenly spread {unit}s of "
        f"{sample.num_rows[index]:,}"
        for index, facts in enumerate(found["text"]["corpora"])
        if sample.num_rows[index] > sample.num_chosen[index]
    ]
    return replace(report, notes=[*notes, *report.notes])


def _estimate_epoch(preparation: Preparation, sample: CorpusSample) -> EpochSize | TextEpochSize:
    """Returns the size of one pass over the data, scaled up from the sample's."""
    recipe, data = preparation.recipe, preparation.data
    of_sample = measure_epoch(preparation.draft / "train", data, recipe.training, seed=recipe.seed)
    seen = [
        facts["kept"] * corpus.weight
        for facts, corpus in zip(preparation.found["train"]["corpora"], data.train, strict=True)
    ]
    total = sum(map(mul, seen, map(sample.scale, range(len(seen)))))
    return of_sample.multiply(total / sum(seen))
