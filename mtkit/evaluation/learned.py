"""Statistics of learned metrics, which are opened elsewhere: they need torch."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mtkit.evaluation.statistics import Statistics

Row = tuple[str, str, str]
"""Source, translation, reference; those that a metric doesn't read may be empty."""


class LearnedMetric(Protocol):
    """A metric of sentences; see `mtkit.inference.learned_metric.Comet`."""

    name: str
    model: str
    signature: str
    needs_reference: bool

    def score(self, rows: Sequence[Row]) -> NDArray[np.float64]:
        """Returns the score of each row, which is finite."""


def measure_learned(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[str],
    sources: Sequence[str] | None,
    metrics: Sequence[LearnedMetric],
) -> dict[str, list[Statistics]]:
    """Returns each system's statistics by each metric: means of sentences' scores, times 100.

    There is one reference per sentence: COMET takes no more.
    """
    found: dict[str, list[Statistics]] = {name: [] for name in systems}
    names = [metric.name for metric in metrics]
    for metric in metrics:
        name = f"{metric.name} {metric.model}" if names.count(metric.name) > 1 else metric.name
        rows = [
            row
            for lines in systems.values()
            for row in zip(sources or [""] * len(lines), lines, references, strict=True)
        ]
        scores = metric.score(rows).reshape(len(systems), -1)
        for system, of_system in zip(systems, scores, strict=True):
            counted = np.stack((of_system, np.ones_like(of_system)), axis=1)
            found[system].append(Statistics.of("comet", name, metric.signature, counted))
    return found
