"""Minimum error rate training (MERT) of feature weights (aclanthology.org/P03-1021)."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

_MAX_ROUNDS = 20
_NUM_STARTS = 5
"""The given weights, and random ones."""
_MIN_GAIN = 1e-6


def tune_weights(
    features: Sequence[Numbers],
    statistics: Sequence[Numbers],
    score: Callable[[Numbers], Numbers],
    start: Sequence[float],
) -> tuple[list[float], float]:
    """Returns weights, and the corpus score of the candidates with the highest weighted sums.

    One weight at a time is set to the best of all values, by an exact line search, until none
    improves the score. The largest weight is 1 or -1; weights are at least as good as `start`.

    Args:
        features: Of each line, [candidates, features].
        statistics: Of each line, [candidates, k]; their sums have a corpus score.
        score: From sums of statistics, [n, k], to scores, [n]; higher is better.
        start: Weights to begin with; further ones are random, against local optima.
    """
    generator = np.random.default_rng(1)
    given = np.array(start, np.float64)
    # A feature in which no line's candidates differ keeps its weight.
    varies = np.any([np.ptp(each, axis=0) > 0.0 for each in features], axis=0)
    starts = [given]
    for _ in range(_NUM_STARTS - 1):
        starts.append(np.where(varies, generator.normal(size=len(start)), given))
    best = max(
        (_climb(features, statistics, score, weights) for weights in starts),
        key=lambda found: found[1],
    )
    weights, value = best
    return (weights / max(float(np.abs(weights).max()), 1e-300)).tolist(), value


def _climb(
    features: Sequence[Numbers],
    statistics: Sequence[Numbers],
    score: Callable[[Numbers], Numbers],
    weights: Numbers,
) -> tuple[Numbers, float]:
    """Returns weights that no change of a single one improves, and their score."""
    chosen = [np.argmax(each @ weights) for each in features]
    sums = sum(rows[index] for rows, index in zip(statistics, chosen, strict=True))
    value = float(score(np.asarray(sums)[None])[0])
    for _ in range(_MAX_ROUNDS):
        before = value
        for position in range(len(weights)):
            step, found = _search_line(features, statistics, score, weights, position)
            if found > value + _MIN_GAIN:
                value = found
                weights = weights.copy()
                weights[position] += step
        if value <= before + _MIN_GAIN:
            break
    return weights, value


def _search_line(
    features: Sequence[Numbers],
    statistics: Sequence[Numbers],
    score: Callable[[Numbers], Numbers],
    weights: Numbers,
    position: int,
) -> tuple[float, float]:
    """Returns the best change of a weight, and its score.

    As a function of the change a candidate's sum is a line. The best candidates are the upper
    envelope, and the corpus's statistics change where it does for one of the sentences.
    """
    at_begin = np.zeros(statistics[0].shape[1])
    breakpoints: list[float] = []
    changes: list[Numbers] = []
    for each, rows in zip(features, statistics, strict=True):
        envelope = _find_envelope(each[:, position], each @ weights)
        at_begin += rows[envelope[0][0]]
        for (before, _), (after, turn) in pairwise(envelope):
            breakpoints.append(turn)
            changes.append(rows[after] - rows[before])
    if not breakpoints:
        return 0.0, float(score(at_begin[None])[0])
    order = np.argsort(breakpoints, kind="stable")
    ends = np.array(breakpoints)[order]
    sums = at_begin + np.vstack([np.zeros_like(at_begin), np.cumsum(np.array(changes)[order], 0)])
    # Between equal breakpoints there is no value of the weight.
    is_wide = np.concatenate([[True], np.diff(ends) > 0.0, [True]])
    found = np.where(is_wide, score(sums), -np.inf)
    best = int(np.argmax(found))
    low = ends[best - 1] if best > 0 else ends[0] - 1.0
    high = ends[best] if best < len(ends) else ends[-1] + 1.0
    return float((low + high) / 2), float(found[best])


def _find_envelope(slopes: Numbers, heights: Numbers) -> list[tuple[int, float]]:
    """Returns the upper envelope of lines from left to right, each with its start."""
    envelope: list[tuple[int, float]] = []
    # Of parallel lines only the highest is ever seen: it comes last.
    for index in np.lexsort((heights, slopes)).tolist():
        begin = -np.inf
        while envelope:
            other, other_begin = envelope[-1]
            if slopes[index] == slopes[other]:
                envelope.pop()
                continue
            begin = (heights[other] - heights[index]) / (slopes[index] - slopes[other])
            if begin > other_begin:
                break
            envelope.pop()
        envelope.append((index, float(begin) if envelope else -np.inf))
    return envelope
