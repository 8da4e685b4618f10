"""Entry point of `mtkit calibrate`: fits and tests the estimate of quality on labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mtkit.data.sources.lines import read_lines
from mtkit.errors import MtkitError, shorten
from mtkit.evaluation.quality import (
    FIT_SHARE,
    Estimator,
    Threshold,
    choose_threshold,
    count_needed,
    count_released,
    estimate_needed,
    measure_area,
    split_labels,
)
from mtkit.inference.open_translator import (
    digest_reverse,
    digest_translator,
    open_measures,
    open_translator,
)
from mtkit.inference.quality import QualityFile, measure_pairs
from mtkit.inference.request import Request
from mtkit.model.config import read_settings
from mtkit.model.digest import reading
from mtkit.model.exporters.ctranslate2_files import find_engine
from mtkit.pipeline.engine_choice import choose_engine
from mtkit.recipe.inference import Inference, Quality
from mtkit.recipe.override_section import override_section

if TYPE_CHECKING:
    from mtkit.recipe import Recipe
    from mtkit.workspace import Workspace

_LABELS = {"ok": True, "1": True, "bad": False, "0": False}
_WINDOW = 1_024
_RISKS = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Risks that are told beside the one that is set."""


@dataclass(frozen=True)
class LabelledPairs:
    """Pairs of a line and its translation, and whether each is right."""

    pairs: list[tuple[str, str]]
    right: list[bool]


@dataclass(frozen=True)
class Outcome:
    """What is released at a risk.

    Attributes:
        threshold: None if nothing is released.
        min_labels: Minimum number of labels that could release anything.
        num_needed: About how many would, judged by those that there are; None if none would.
    """

    risk: float
    threshold: Threshold | None
    min_labels: int
    num_needed: int | None


@dataclass(frozen=True)
class Calibration:
    """The result of `calibrate`.

    Attributes:
        num_fit: Labels that fit the estimate.
        area: Area under the ROC curve of the others; None if they are all right or all wrong.
        outcomes: By risk.
    """

    num_labels: int
    num_wrong: int
    num_fit: int
    area: float | None
    outcomes: list[Outcome]

    @property
    def num_tested(self) -> int:
        """Labels that test thresholds."""
        return self.num_labels - self.num_fit


def read_labels(path: Path) -> LabelledPairs:
    """Returns labelled pairs of a file: source, tab, translation, tab, `ok` or `bad` (1 or 0)."""
    found = LabelledPairs([], [])
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split("\t")
        if len(columns) != 3 or not columns[0].strip():
            fault = f"{len(columns)} columns" if len(columns) != 3 else "an empty source"
            raise MtkitError(
                f"{path}:{number}: {fault}, expected a source, its translation and a label",
                "write one segment a line, with tabs between the three",
            )
        label = columns[2].strip().lower()
        if label not in _LABELS:
            raise MtkitError(
                f"{path}:{number}: label '{shorten(columns[2], 40)}', expected ok or bad",
                "1 and 0 mean the same",
            )
        found.pairs.append((columns[0], columns[1]))
        found.right.append(_LABELS[label])
    if len(set(found.right)) < 2:
        kind = "empty" if not found.right else f"all labels are {'ok' if found.right[0] else 'bad'}"
        raise MtkitError(
            f"{path}: {kind}, so nothing can be learned", "label right and wrong translations"
        )
    return found


def open_settings(
    models: Sequence[Path],
    run: "tuple[Recipe, Workspace] | None",
    overrides: Sequence[str],
    device: str,
) -> tuple[list[Path], Inference]:
    """Returns the model folders and settings of `--model`, or of a run, as for translating."""
    if run is None:
        return list(models), override_section(read_settings(models[0]), "inference", overrides)
    choice = choose_engine(run[0].inference, run[1], device)
    return [choice.folder], choice.settings


def calibrate(
    labels: Path,
    folders: Sequence[Path],
    settings: Inference,
    *,
    device: str = "auto",
    source_language: str = "",
    target_language: str = "",
) -> Calibration:
    """Fits the estimate of quality on labels, tests it, and writes `inference.quality.path`.

    Args:
        labels: As `read_labels` reads them.
        folders: The model folder, or those of an ensemble.
        settings: With `quality`.
        device: `cpu`, `cuda` or `auto`.
        source_language: The language of the lines, for a multilingual model.
        target_language: The language of the translations.
    """
    quality = settings.quality
    if quality is None:
        raise MtkitError("no file to write: inference.quality.path is empty", "give --output FILE")
    if quality.path.is_dir() or not quality.path.parent.is_dir():
        raise MtkitError(f"{quality.path}: can't be written", "name a file in an existing folder")
    labelled = read_labels(labels)
    with reading(*folders):
        pipeline = open_translator(
            folders,
            engine=None,
            device=device,
            settings=settings.model_copy(update={"quality": None}),
            source_language=source_language,
            target_language=target_language,
        )
        model = digest_translator(folders, find_engine(folders[0], settings.engine))
    pipeline.languages.resolve()
    measures = open_measures(pipeline, quality, device)
    columns: dict[str, list[float]] = {}
    for first in range(0, len(labelled.pairs), _WINDOW):
        window = labelled.pairs[first : first + _WINDOW]
        requests = [Request(source, prefix=target) for source, target in window]
        for name, numbers in measure_pairs(measures, requests).items():
            columns.setdefault(name, []).extend(numbers)
    calibration, estimator, thresholds = _fit(labelled, columns, quality)
    QualityFile(
        model=model,
        reverse=digest_reverse(quality),
        samples=quality.samples,
        estimator=estimator,
        thresholds=thresholds,
    ).write(quality.path)
    return calibration


def _fit(
    labelled: LabelledPairs, columns: dict[str, list[float]], quality: Quality
) -> tuple[Calibration, Estimator, tuple[Threshold, ...]]:
    """Returns what the labels show, given their features."""
    keys = [(*pair, right) for pair, right in zip(labelled.pairs, labelled.right, strict=True)]
    fit, tested = split_labels(keys)
    right = np.array(labelled.right)
    of_fit = {name: [numbers[index] for index in fit] for name, numbers in columns.items()}
    if np.isnan(np.array([*of_fit.values()])).any(axis=0).all():
        raise MtkitError(
            "the labelled segments are too long for the model to score", "label shorter ones"
        )
    estimator = Estimator.fit(of_fit, right[fit])
    estimates = estimator.estimate(columns)
    thresholds = count_released((estimates[fit], right[fit]), (estimates[tested], right[tested]))
    outcomes = [
        _judge(thresholds, risk, quality.confidence, len(right))
        for risk in sorted({*_RISKS, quality.risk})
    ]
    area = measure_area(estimates[tested], right[tested])
    num_wrong = int((~right).sum())
    return Calibration(len(right), num_wrong, len(fit), area, outcomes), estimator, thresholds


def _judge(
    thresholds: Sequence[Threshold], risk: float, confidence: float, num_labels: int
) -> Outcome:
    minimum = count_needed(risk, confidence)
    assert minimum is not None, "without wrong ones there is always a number"
    needed = estimate_needed(thresholds, risk, confidence, num_labels)
    return Outcome(
        risk,
        choose_threshold(thresholds, risk, confidence),
        math.ceil(minimum / (1.0 - FIT_SHARE)),
        None if needed is None else max(needed, num_labels + 1),
    )
