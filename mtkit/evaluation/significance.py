"""Tests whether a difference between two systems could be chance, by resampling the test set.

Paired bootstrap resampling (Koehn 2004, aclweb.org/W04-3250) and approximate randomisation (Riezler
and Maxwell 2005, aclweb.org/W05-0908), as defined and drawn by sacreBLEU: with the same seed,
p-values equal those of its `--paired-bs` and `--paired-ar`. All sums of a resampling are one matrix
product: how often each sentence was drawn, times each sentence's statistics.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import MtkitError
from mtkit.evaluation.results import Interval, ScoreDifference, TestKind
from mtkit.evaluation.statistics import Numbers, Statistics
from mtkit.recipe.evaluation import TextMetric

_TIE = 1e-9
"""Percentage points below which two differences are equal."""
_LEVEL = 20
"""One in this many may be significant by chance: p < 0.05."""
# Numbers in memory at once, of which there are three copies of 8 bytes.
_MAX_WEIGHTS = 4_000_000
# numpy draws booleans in words of 32 bits and drops the rest of a word at the end of a call.
_BITS_PER_DRAW = 32
# Halvings of an interval of some ten points, to the last digits of double precision.
_HALVINGS = 60


def bootstrap_intervals(
    systems: Mapping[str, Sequence[Statistics]],
    *,
    resamples: int,
    seed: int,
    confidence: float = 0.95,
) -> dict[str, list[Interval]]:
    """Returns each system's confidence interval by each metric, over resamples of the test set.

    The definition is sacreBLEU's: of the sorted scores of all resamples, as many are left out at
    either end as the confidence allows (at 0.95 and 1,000 resamples, 25), and the minimum and
    maximum of the others are the ends. Half their distance is the number that sacreBLEU prints
    after ±, around the resamples' mean. `seed` is 12345 by default in sacreBLEU.
    """
    scores = score_resamples(systems, resamples, seed)
    return {
        name: [find_interval(values, confidence) for values in scores[name]] for name in systems
    }


def find_differences(
    systems: Mapping[str, Sequence[Statistics]],
    baseline: str,
    *,
    test: TestKind,
    resamples: int,
    seed: int,
    confidence: float = 0.95,
) -> dict[str, list[ScoreDifference]]:
    """Returns the difference of each other system from the baseline, by each metric.

    The p-value is sacreBLEU's: the share of resamples that count against the difference, with one
    more counted on both sides, so that it is never 0. Under `bootstrap` test sets are drawn with
    replacement. One counts against the difference if the systems' absolute difference there exceeds
    the mean of such differences by more than the difference. In effect that is a one-sided test, so
    an interval may contain 0 if p is slightly below 0.05. Under `randomization` each sentence's
    translations are swapped or not by a coin toss, and a resample counts if its difference is
    larger, or for metrics that sacreBLEU lacks, at least as large. The seed's draws are the same
    for all systems and metrics, as in sacreBLEU. sacreBLEU's sums in single precision are exact up
    to 16 million n-grams; beyond, its p-values may differ in the last digits, and with three
    references or more, those of TER. If no resample shows any difference, as between a system and
    itself, p is 1; in sacreBLEU it is the lowest possible.

    `interval` is of the signed difference, always by paired bootstrap, as in `bootstrap_intervals`.

    `smallest` is the smallest difference that would have been significant, p < 0.05, with the same
    spread of resamples. Under `randomization`, where the spread doesn't depend on the difference,
    it is the 95th percentile of the resamples' differences. Under `bootstrap` each resample's
    difference is shifted with the difference. In both cases the p-value is below 0.05 exactly if
    the absolute difference is at least `smallest`; if no resample shows a difference, `smallest` is
    0.

    sacreBLEU's default `resamples` are 1,000 for `bootstrap` and 10,000 for `randomization`.
    """
    scores = score_resamples(systems, resamples, seed)
    others = [name for name in systems if name != baseline]
    shuffled = {}
    if test == "randomization":
        shuffled = _shuffle(systems, baseline, resamples, seed)
    found: dict[str, list[ScoreDifference]] = {}
    for name in others:
        found[name] = []
        for position, statistics in enumerate(systems[name]):
            value = statistics.value - systems[baseline][position].value
            resampled = scores[name][position] - scores[baseline][position]
            resampled = resampled[~np.isnan(resampled)]
            if test == "bootstrap":
                p_value = _find_p_value(resampled, abs(value), exceeding=_exceed_mean(resampled))
                smallest = _find_smallest_of_bootstrap(resampled, value)
            else:
                least = abs(value)
                if statistics.metric not in get_args(TextMetric):
                    # Ties count, as in Riezler and Maxwell (2005); in sacreBLEU they don't.
                    least -= _TIE
                p_value = _find_p_value(shuffled[name][position], least)
                smallest = _find_smallest_of_shuffled(shuffled[name][position])
            interval = find_interval(resampled, confidence)
            found[name].append(ScoreDifference(value, p_value, test, interval, smallest))
    return found


def _check(systems: Mapping[str, Sequence[Statistics]], resamples: int) -> int:
    """Returns the number of sentences, after a check that it is the same for all."""
    if resamples < _LEVEL:
        raise MtkitError(
            f"{resamples} resamples are too few: no p-value could be below 0.05",
            f"use at least {_LEVEL}; 1,000 is usual",
        )
    counts = {name: len(each.per_sentence) for name, found in systems.items() for each in found}
    (first_name, num_sentences), *others = counts.items()
    for name, count in others:
        if count != num_sentences:
            raise MtkitError(
                f"{first_name} has {num_sentences:,} sentences, but {name} has {count:,}: they "
                "must be translations of the same test set"
            )
    if num_sentences < 2:
        raise MtkitError("a test set of one sentence can't be resampled: at least 2 are needed")
    metrics = [[each.metric for each in found] for found in systems.values()]
    if any(each != metrics[0] for each in metrics):
        raise ValueError(f"systems are measured by different metrics: {metrics}")
    return num_sentences


def score_resamples(
    systems: Mapping[str, Sequence[Statistics]], resamples: int, seed: int
) -> dict[str, list[Numbers]]:
    """Returns each system's scores over resampled test sets, [resamples] per metric.

    The seed's test sets are the same for all systems and metrics.
    """
    num_sentences = _check(systems, resamples)
    chunks: dict[str, list[Numbers]] = {name: [] for name in systems}
    for drawn in _draw_counts(num_sentences, resamples, seed):
        for name, found in systems.items():
            chunks[name].append(drawn @ _join(found))
    # sacreBLEU scores its resamples in single precision, which decides ties.
    return {
        name: _score_each(systems[name], np.concatenate(sums).astype(np.float32))
        for name, sums in chunks.items()
    }


def _shuffle(
    systems: Mapping[str, Sequence[Statistics]], baseline: str, resamples: int, seed: int
) -> dict[str, list[Numbers]]:
    """Returns absolute differences between shuffled systems, [resamples] per metric."""
    first = _join(systems[baseline])
    others = [name for name in systems if name != baseline]
    chunks: dict[str, list[Numbers]] = {name: [] for name in others}
    for is_first in _draw_sides(len(first), resamples, seed):
        for name in others:
            second = _join(systems[name])
            chunks[name].append(is_first @ (first - second) + second.sum(0))
    shuffled = {}
    for name in others:
        one = np.concatenate(chunks[name])
        other = first.sum(0) + _join(systems[name]).sum(0) - one
        shuffled[name] = [
            np.abs(left - right)
            for left, right in zip(
                _score_each(systems[name], one), _score_each(systems[name], other), strict=True
            )
        ]
    return shuffled


def _draw_counts(num_sentences: int, resamples: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """Yields how often each sentence is in each resample, [some resamples, sentences]."""
    generator = np.random.default_rng(seed)
    max_rows = max(1, _MAX_WEIGHTS // num_sentences)
    for first in range(0, resamples, max_rows):
        rows = min(max_rows, resamples - first)
        drawn = generator.choice(num_sentences, size=(rows, num_sentences), replace=True)
        drawn += np.arange(rows)[:, None] * num_sentences
        counts = np.bincount(drawn.ravel(), minlength=rows * num_sentences)
        del drawn
        yield counts.reshape(rows, num_sentences).astype(np.float64)


def _draw_sides(num_sentences: int, resamples: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """Yields 1 if a sentence is the baseline's, else 0, [some resamples, sentences]."""
    generator = np.random.default_rng(seed)
    max_rows = max(1, _MAX_WEIGHTS // num_sentences // _BITS_PER_DRAW) * _BITS_PER_DRAW
    for first in range(0, resamples, max_rows):
        rows = min(max_rows, resamples - first)
        sides = generator.integers(2, size=(rows, num_sentences), dtype=bool)
        yield sides.astype(np.float64)


def _join(found: Sequence[Statistics]) -> NDArray[np.float64]:
    """Returns the statistics of all metrics side by side, [sentences, k of all]."""
    # In double precision, sums of integers are exact in any order.
    return np.hstack([each.per_sentence for each in found]).astype(np.float64)


def _score_each(found: Sequence[Statistics], sums: Numbers) -> list[Numbers]:
    """Returns the scores of sums in the layout of `_join`, [resamples] per metric."""
    ends = np.cumsum([each.per_sentence.shape[1] for each in found])[:-1]
    parts = np.split(sums, ends, axis=1)
    return [each.score(part) for each, part in zip(found, parts, strict=True)]


def _exceed_mean(differences: Numbers) -> Numbers:
    """Returns the excess of the absolute differences over their mean."""
    absolute = np.abs(differences)
    exceeding: Numbers = absolute - absolute.mean()
    return exceeding


def _find_p_value(
    resampled: Numbers, difference: float, *, exceeding: Numbers | None = None
) -> float:
    """Returns the share of resamples that count against a difference, with one more that does."""
    # `resampled` are the resamples' differences; p is 1 if all are 0. `exceeding` are the values to
    # compare with the absolute difference, by default `resampled`.
    if not resampled.any():
        return 1.0
    above = int(np.count_nonzero((resampled if exceeding is None else exceeding) > difference))
    return (above + 1) / (len(resampled) + 1)


def _count_allowed(resamples: int) -> int:
    """Returns the maximum number of resamples above a difference with a p-value below 0.05."""
    # In integers, (above + 1) / (resamples + 1) < 1 / 20.
    return resamples // _LEVEL - 1


def _find_smallest_of_shuffled(shuffled: Numbers) -> float:
    """Returns the smallest value that no more than the allowed number of others exceed."""
    position = len(shuffled) - 1 - _count_allowed(len(shuffled))
    return float(np.partition(shuffled, position)[position])


def _find_smallest_of_bootstrap(resampled: Numbers, difference: float) -> float:
    """Returns the smallest difference with a p-value below 0.05, if all resamples shift with it."""
    sign = -1.0 if difference < 0 else 1.0
    around = sign * resampled.astype(np.float64) - abs(difference)

    def is_significant(moved_to: float) -> bool:
        above = int(np.count_nonzero(_exceed_mean(around + moved_to) > moved_to))
        return above <= _count_allowed(len(around))

    # At the upper end no resample exceeds their mean by as much as the difference exceeds 0.
    low, high = 0.0, 2 * float(np.abs(around).max())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if is_significant(middle):
            high = middle
        else:
            low = middle
    return high


def find_interval(values: Numbers, confidence: float) -> Interval:
    """Returns the percentile interval of the values at this confidence.

    NaN, of a resample without anything to score, doesn't count.
    """
    ordered = np.sort(values[~np.isnan(values)])
    # In decimal digits as given: 1 - 0.9 is less than 0.1 in binary.
    left_out = int(len(ordered) * (1 - Fraction(str(confidence))) / 2)
    return Interval(float(ordered[left_out]), float(ordered[-1 - left_out]))
