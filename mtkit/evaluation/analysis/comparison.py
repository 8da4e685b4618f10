"""Compares two systems sentence by sentence."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_BINS_PER_SIDE = 10
_NUM_EXAMPLES = 10
MIN_RANGE = 0.01
"""Percentage points: scores are shown with two decimals."""
NICE_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class SentenceScores:
    """One metric's score of each sentence.

    Attributes:
        higher_is_better: False for TER.
        values: By system, one per sentence, in percentage points.
    """

    metric: str
    higher_is_better: bool
    values: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Example:
    """A sentence with different scores for two systems.

    Attributes:
        index: Its index in the test set.
        gain: The system's score over the baseline's; negative if the baseline is better.
        source: None if sources aren't known.
    """

    index: int
    gain: float
    source: str | None
    reference: str
    output: str
    baseline_output: str
    score: float
    baseline_score: float


@dataclass(frozen=True)
class Histogram:
    """Number of values between consecutive edges; the middle bin contains 0.

    The outermost bins also count everything beyond them.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class SystemComparison:
    """A comparison of a system with the baseline, sentence by sentence.

    Attributes:
        higher_is_better: False for TER; gains are positive if the system is better, also for TER.
        num_tied: Sentences neither won nor lost.
        gains: The distribution of gains.
        won: Sentences with the largest gains, largest first.
        lost: Sentences with the largest losses, largest first.
    """

    system: str
    baseline: str
    metric: str
    higher_is_better: bool
    num_won: int
    num_lost: int
    num_tied: int
    gains: Histogram
    won: tuple[Example, ...]
    lost: tuple[Example, ...]


def compare_sentences(
    system: str,
    baseline: str,
    outputs: Mapping[str, Sequence[str]],
    references: Sequence[str],
    sentence_scores: SentenceScores,
    *,
    sources: Sequence[str] | None = None,
) -> SystemComparison:
    """Returns the comparison of a system with a baseline, both named in `outputs`."""
    ours, theirs = sentence_scores.values[system], sentence_scores.values[baseline]
    sign = 1 if sentence_scores.higher_is_better else -1
    gains = [sign * (float(one) - float(other)) for one, other in zip(ours, theirs, strict=True)]

    def show(index: int) -> Example:
        return Example(
            index=index,
            gain=gains[index],
            source=None if sources is None else sources[index],
            reference=references[index],
            output=outputs[system][index],
            baseline_output=outputs[baseline][index],
            score=float(ours[index]),
            baseline_score=float(theirs[index]),
        )

    won, lost = rank_gains(gains)
    return SystemComparison(
        system=system,
        baseline=baseline,
        metric=sentence_scores.metric,
        higher_is_better=sentence_scores.higher_is_better,
        num_won=len(won),
        num_lost=len(lost),
        num_tied=len(gains) - len(won) - len(lost),
        gains=count_gains(gains),
        won=tuple(map(show, won[:_NUM_EXAMPLES])),
        lost=tuple(map(show, lost[:_NUM_EXAMPLES])),
    )


def rank_gains(gains: Sequence[float]) -> tuple[list[int], list[int]]:
    """Returns the sentences won and lost, without ties; largest difference first, then in order."""
    ranked = sorted(range(len(gains)), key=lambda index: -abs(gains[index]))
    return [index for index in ranked if gains[index] > 0], [
        index for index in ranked if gains[index] < 0
    ]


def count_gains(gains: Sequence[float]) -> Histogram:
    """Returns gains in bins of one round width; the middle one contains 0."""
    sizes = sorted(map(abs, gains)) or [0.0]
    # One in a hundred may lie outside, or a few outliers would leave all others in three bins.
    max_size = max(sizes[math.ceil(0.99 * len(sizes)) - 1], MIN_RANGE)
    min_width = max_size / (_BINS_PER_SIDE + 0.5)
    power = 10.0 ** math.floor(math.log10(min_width))
    width = power * next(step for step in NICE_STEPS if step * power >= min_width * (1 - 1e-9))
    num_sides = max(1, math.ceil(max_size / width - 0.5))
    counts = [0] * (2 * num_sides + 1)
    for gain in gains:
        bin_index = math.floor(abs(gain) / width + 0.5)
        counts[
            num_sides + (min(bin_index, num_sides) if gain > 0 else -min(bin_index, num_sides))
        ] += 1
    edges = tuple((edge - num_sides - 0.5) * width for edge in range(len(counts) + 1))
    return Histogram(edges, tuple(counts))
