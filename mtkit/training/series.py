"""Series, scores and events of a training, from the lines of its metrics."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtkit.training.metrics import LOSSES, MetricsLine, number
from mtkit.units import format_duration, plural

Numbers = NDArray[np.float64]

_EARLY = 0.05
"""Share of the steps that count as early, where losses fall and scores rise steeply."""
_OTHER_EVENTS = "other events"


@dataclass(frozen=True)
class Series:
    """One number of each line, by step.

    Attributes:
        steps: Where it was measured.
        values: The number; NaN where it is missing, NaN or infinity.
    """

    steps: Numbers
    values: Numbers

    @classmethod
    def of(cls, lines: Sequence[MetricsLine], key: str) -> "Series":
        """Returns the numbers under a key."""
        numbers = (number(line, key) for line in lines)
        values = [math.nan if value is None else value for value in numbers]
        return cls(
            np.array([line["step"] for line in lines], dtype=np.float64),
            np.array(values, dtype=np.float64),
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing was measured."""
        return not bool(np.isfinite(self.values).any())

    def smoothed(self) -> "Series":
        """Returns the mean over 1/25 of the points around each; NaN doesn't count."""
        width = max(1, len(self.values) // 50)
        window = np.ones(2 * width + 1)
        is_number = np.isfinite(self.values)
        counts = np.convolve(is_number, window, mode="same")
        sums = np.convolve(np.where(is_number, self.values, 0.0), window, mode="same")
        means = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
        return Series(self.steps, means)

    def later(self) -> Numbers:
        """Returns the numbers after the early steps; all, where there are few."""
        is_number = np.isfinite(self.values)
        if len(self.steps) >= 10:
            first, last = self.steps.min(), self.steps.max()
            is_late = is_number & (self.steps > first + _EARLY * (last - first))
            is_number = is_late if is_late.any() else is_number
        return self.values[is_number]


def list_scores(dev: Sequence[MetricsLine], score: str) -> list[str]:
    """Returns the names of the development scores, the one that ranks checkpoints first."""
    no_scores = {"kind", "step", "elapsed_seconds", *LOSSES}
    names = dict.fromkeys(
        key
        for line in dev
        for key in line
        if key not in no_scores and number(line, key) is not None
    )
    return sorted(names, key=lambda name: name != score)


def describe_length(metrics: Sequence[MetricsLine]) -> str:
    """Returns how long the training was."""
    train = [line for line in metrics if line["kind"] == "train"]
    if not train:
        return ""
    last = train[-1]
    facts = [f"{last['step']:,} steps"]
    if last.get("epoch"):
        facts.append(plural(last["epoch"], "epoch"))
    if last.get("target_tokens"):
        millions = last["target_tokens"] / 1e6
        facts.append(f"{millions:,.{0 if millions >= 100 else 1}f} million target tokens")
    if last.get("elapsed_seconds"):
        facts.append(format_duration(last["elapsed_seconds"]))
    return " · ".join(facts)


def group_events(events: Sequence[MetricsLine], max_kinds: int) -> list[tuple[str, list[int]]]:
    """Returns events by kind, in words, and their steps.

    Texts that differ in numbers alone are of one kind; kinds beyond `max_kinds` are put together.
    """
    kinds: dict[str, list[MetricsLine]] = {}
    for event in events:
        kind = re.sub(r"\d[\d,.]*\d|\d", "…", str(event["text"]))
        if kind not in kinds and len(kinds) + 1 >= max_kinds:
            kind = _OTHER_EVENTS
        kinds.setdefault(kind, []).append(event)
    named = []
    for kind, alike in kinds.items():
        texts = {str(event["text"]) for event in alike}
        text = texts.pop() if len(texts) == 1 else kind
        text = text if len(text) <= 46 else text[:45] + "…"
        steps = sorted({int(event["step"]) for event in alike})
        listed = (
            ", ".join(f"{step:,}" for step in steps)
            if len(steps) <= 2
            else f"{steps[0]:,} to {steps[-1]:,}"
        )
        count = f"{len(alike):,} × " if len(alike) > 1 else ""
        named.append((f"{count}{text} ({listed})", steps))
    return named
