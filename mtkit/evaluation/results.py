"""Results of an evaluation as plain values."""

from dataclasses import dataclass
from typing import Literal

TestKind = Literal["bootstrap", "randomization"]
"""Paired bootstrap resampling, or approximate randomisation."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval in percentage points, by bootstrap over sentences."""

    low: float
    high: float


@dataclass(frozen=True)
class ScoreDifference:
    """The difference of a system's score from the baseline's on the same test set.

    Attributes:
        value: In percentage points.
        p_value: Probability of a difference this large between two equally good systems.
        test: The test of the p-value.
        interval: By paired bootstrap.
        smallest: The smallest difference that this test set can show between the two.
    """

    value: float
    p_value: float
    test: TestKind
    interval: Interval
    smallest: float


@dataclass(frozen=True)
class SystemScore:
    """A system's score by one metric.

    Attributes:
        name: sacreBLEU's name of the metric, such as `chrF2`.
        value: Percentage points.
        signature: Everything that the value depends on, in sacreBLEU's form.
        higher_is_better: False for TER.
        difference: None for the baseline, and for a single system.
        verbose_score: sacreBLEU's precisions, brevity penalty and lengths of a BLEU score.
    """

    name: str
    value: float
    signature: str
    higher_is_better: bool = True
    interval: Interval | None = None
    difference: ScoreDifference | None = None
    verbose_score: str = ""


@dataclass(frozen=True)
class SystemResult:
    """The results of one system.

    Attributes:
        name: The distinctive part of its file's name.
        scores: One per metric.
        remarks: Apparent defects of its text, a sentence each.
    """

    name: str
    scores: tuple[SystemScore, ...]
    remarks: tuple[str, ...] = ()
