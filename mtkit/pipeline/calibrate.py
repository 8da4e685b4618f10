"""Entry point of `mtkit calibrate`: fits and tests the estimate of quality on labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mtkit.console import warn
from mtkit.data.sources.lines import read_lines
from mtkit.errors import MtkitError, shorten
from mtkit.evaluation.quality import (
    FIT_SHARE,
    Estimator,
    Threshold,
    choose_threshold,
    compute_roc_auc,
    count_needed,
    estimate_needed,
    make_thresholds,
    split_labels,
)
from mtkit.files import check_not_input
from mtkit.inference.open_translator import (
    digest_others,
    digest_translator,
    open_measures,
    open_translator,
)
from mtkit.inference.quality import QualityFile, measure_pairs
from mtkit.inference.request import Request
from mtkit.model.config import read_settings
from mtkit.model.digest import list_model_files, reading
from mtkit.recipe.inference import Inference
from mtkit.recipe.override_section import override_section
from mtkit.units import plural

if TYPE_CHECKING:
    from mtkit.recipe import Recipe
    from mtkit.workspace import Workspace

_LABELS = {"ok": True, "1": True, "bad": False, "0": False}
_WINDOW = 1_024


@dataclass(frozen=True)
class Calibration:
    """The result of `calibrate`.

    Attributes:
        num_fit: Labels that the estimate is fitted to.
        num_tested: Labels that thresholds are tested on.
        area: Area under the ROC curve of these; None if they are all right or all wrong.
        thresholds: The strictest first.
    """

    num_wrong: int
    num_fit: int
    num_tested: int
    area: float | None
    thresholds: Sequence[Threshold]

    def choose(self, risk: float, confidence: float) -> Threshold | None:
        """Returns the threshold for a risk; None if nothing is released."""
        return choose_threshold(self.thresholds, risk, confidence)

    def exceeds(self, risk: float) -> bool:
        """Checks that among the labels, whatever is released, more than `risk` is wrong."""
        return all(
            each.wrong + each.fit_wrong > risk * (each.released + each.fit_released)
            for each in self.thresholds
        )

    def count_needed(self, risk: float, confidence: float) -> tuple[int, int | None]:
        """Returns how many labels a risk needs at least, and about how many by those there are."""
        minimum = math.ceil((count_needed(risk, confidence) or 0) / (1.0 - FIT_SHARE))
        num_labels = self.num_fit + self.num_tested
        about = estimate_needed(self.thresholds, risk, confidence, num_labels)
        # An estimate below the labels there are, which were too few, says nothing.
        return minimum, None if about is None or about <= num_labels else about


def read_labels(path: Path) -> list[tuple[str, str, bool]]:
    """Returns labelled pairs of a file: source, tab, translation, tab, `ok` or `bad` (1 or 0)."""
    found = []
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split("\t")
        if len(columns) != 3 or not columns[0].strip():
            fault = plural(len(columns), "column") if len(columns) != 3 else "an empty source"
            raise MtkitError(
                f"{path}:{number}: {fault}, expected a source, its translation and a label",
                "write one segment a line, with tabs between the three",
            )
        source, target, label = columns
        if label.strip().lower() not in _LABELS:
            raise MtkitError(
                f"{path}:{number}: label '{shorten(label, 40)}', expected ok or bad",
                "1 and 0 mean the same",
            )
        found.append((source, target, _LABELS[label.strip().lower()]))
    if repeated := len(found) - len(set(found)):
        # A random sample of real text may have some; copies of a file make the bound too low.
        warn(
            f"{path}: {plural(repeated, 'repeated row')}; each counts as a separate label; "
            "remove repeats that aren't as frequent in the text to translate"
        )
    if len({right for _, _, right in found}) < 2:
        kind = "empty" if not found else f"all labels are {'ok' if found[0][2] else 'bad'}"
        raise MtkitError(
            f"{path}: {kind}, so nothing can be learned", "label right and wrong translations"
        )
    return found


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
    files = [path for folder in folders for path in list_model_files(folder)]
    check_not_input(quality.path, [labels, *files])
    labelled = read_labels(labels)
    with reading(*folders):
        pipeline = open_translator(
            folders,
            device=device,
            settings=settings.model_copy(update={"quality": None}),
            source_language=source_language,
            target_language=target_language,
        )
        model = digest_translator(folders)
    if not pipeline.translates:
        raise MtkitError(
            "calibrate is for translators, which this model isn't", "name a translator with --model"
        )
    pipeline.languages.resolve()
    measures = open_measures(pipeline, quality, device)
    columns: dict[str, list[float]] = {}
    for first in range(0, len(labelled), _WINDOW):
        window = labelled[first : first + _WINDOW]
        pairs = [Request(source, prefix=target) for source, target, _ in window]
        for name, numbers in measure_pairs(measures, pairs).items():
            columns.setdefault(name, []).extend(numbers)
    fit, tested = split_labels(labelled)
    of_fit = {name: [numbers[index] for index in fit] for name, numbers in columns.items()}
    if all(map(math.isnan, of_fit["log_probability"])):
        raise MtkitError(f"{labels}: too long for the model to score", "label shorter segments")
    right = np.array([label for _, _, label in labelled])
    estimator = Estimator.fit(of_fit, right[fit])
    estimates = estimator.estimate(columns)
    thresholds = make_thresholds((estimates[fit], right[fit]), (estimates[tested], right[tested]))
    digests = digest_others(quality)
    QualityFile(
        model=model,
        reverse=digests["reverse"],
        metric=digests["metric"],
        samples=quality.samples,
        estimator=estimator,
        thresholds=thresholds,
    ).write(quality.path)
    area = compute_roc_auc(estimates[tested], right[tested])
    return Calibration(int((~right).sum()), len(fit), len(tested), area, thresholds)


def open_settings(
    models: Sequence[Path],
    run: "tuple[Recipe, Workspace] | None",
    overrides: Sequence[str],
    device: str,
) -> tuple[list[Path], Inference]:
    """Returns the model folders and settings of `--model`, or of a run, as for translating."""
    if run is None:
        return list(models), override_section(read_settings(models[0]), "inference", overrides)
    return [run[1].model], run[0].inference
