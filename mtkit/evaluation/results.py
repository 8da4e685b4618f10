"""Results of an evaluation as plain values: made by the other modules, rendered by reports."""

from dataclasses import dataclass
from typing import Literal

TestKind = Literal["bootstrap", "randomization"]
"""Paired bootstrap resampling, or approximate randomisation."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval, by bootstrap over sentences.

    Attributes:
        low: Percentage points.
        high: Percentage points.
    """

    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """The difference of a system's score from the baseline's on the same test set.

    Attributes:
        value: The system's score minus the baseline's, in percentage points.
        p_value: Probability of a difference this large between two equally good systems.
        test: The test that gives the p-value.
        interval: The difference's confidence interval, by paired bootstrap.
        smallest: The smallest difference that this test set can show between the two.
    """

    value: float
    p_value: float
    test: TestKind
    interval: Interval
    smallest: float


@dataclass(frozen=True)
class SystemScore:
    """One metric's verdict on one system.

    Attributes:
        name: sacreBLEU's name of the metric, such as `chrF2`.
        value: Percentage points.
        signature: Everything that the value depends on, as sacreBLEU writes it.
        higher_is_better: False for TER.
        interval: None where none was asked for.
        difference: None for the baseline, and where there is one system alone.
    """

    name: str
    value: float
    signature: str
    higher_is_better: bool = True
    interval: Interval | None = None
    difference: Difference | None = None


@dataclass(frozen=True)
class SystemResult:
    """All that was found out about one system.

    Attributes:
        name: The system's name: the part of its file's name that other files' lack.
        scores: One per metric.
        remarks: Faults that its text seems to have, a sentence each.
    """

    name: str
    scores: tuple[SystemScore, ...]
    remarks: tuple[str, ...] = ()
