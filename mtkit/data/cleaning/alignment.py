"""Finds stretches of a corpus whose sides don't match, as after a line missing on one side.

The lengths of a sentence and its translation are similar: their logarithms correlate at 0.76 or
more in every 500 pairs of the corpora measured (news, captions, everyday sentences, technical
documentation, encyclopedia; German, French, Chinese, Japanese). Shifted by one line, it is at most
0.3, except in some documentation, whose neighbours are similar. It is a warning, not a filter: it
says nothing about a single pair.
"""

from collections.abc import Iterator
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

_WINDOW = 500
"""Pairs per correlation."""
_STEP = 50
"""Pairs from one window to the next."""
_MIN_CORRELATION = 0.5
"""Below it, a window's sides don't match."""
_MIN_DEVIATION = 0.1
"""Minimum standard deviation of log lengths; below it, as in a word list, lengths show nothing."""
_MAX_SHIFT = 10
"""Maximum shift between the sides that is found, in lines."""
_SHIFTED_CORRELATION = 0.6
"""Minimum correlation for a shift to count as the cause."""


class Misaligned(TypedDict):
    """A stretch whose two sides don't match.

    `first` and `last` are positions of pairs, accurate to about 200. `correlation` is that of the
    sides' log lengths. `shift` is how many lines the target is late, negative if early, and 0 if no
    shift makes the sides match.
    """

    first: int
    last: int
    correlation: float
    shift: int


def find_misaligned(
    source_lengths: NDArray[np.int64], target_lengths: NDArray[np.int64]
) -> list[Misaligned]:
    """Returns the stretches with unrelated lengths, given all lines' lengths in characters."""
    source, target = np.log1p(source_lengths), np.log1p(target_lengths)
    if len(source) < _WINDOW:
        return []
    last_start = len(source) - _WINDOW
    starts = np.append(np.arange(0, last_start, _STEP), last_start)
    is_low = _correlate_windows(source, target, starts) < _MIN_CORRELATION
    return [_describe(source, target, first, last) for first, last in _stretches(starts, is_low)]


def _stretches(starts: NDArray[np.int64], is_low: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yields first and last index of each run of low windows."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], is_low, [0]))))
    # Runs with overlapping windows are one: sentences of similar length lie in between.
    gaps = starts[edges[2::2]] - starts[edges[1:-1:2] - 1]
    is_inner = np.repeat(gaps <= _WINDOW, 2)
    edges = edges[np.concatenate(([True], ~is_inner, [True]))] if len(edges) else edges
    # A window is low once half of it doesn't match, so a run's windows extend beyond it.
    margin = _WINDOW // 2
    for begin, end in edges.reshape(-1, 2).tolist():
        first, last = int(starts[begin]), int(starts[end - 1]) + _WINDOW - 1
        first += margin if begin > 0 else 0
        last -= margin if end < len(starts) else 0
        # Nothing is left of a single low window, which is too little evidence.
        if first <= last:
            yield first, last


def _describe(
    source: NDArray[np.float64], target: NDArray[np.float64], first: int, last: int
) -> Misaligned:
    source, target = source[first : last + 1], target[first : last + 1]
    shifted = {
        shift: _correlate(
            source[max(0, -shift) : len(source) - max(0, shift)],
            target[max(0, shift) : len(target) - max(0, -shift)],
        )
        for shift in range(-_MAX_SHIFT, _MAX_SHIFT + 1)
    }
    best = max(shifted, key=lambda shift: shifted[shift])
    if shifted[best] < _SHIFTED_CORRELATION:
        best = 0
    return {"first": first, "last": last, "correlation": round(shifted[0], 3), "shift": best}


def _correlate(source: NDArray[np.float64], target: NDArray[np.float64]) -> float:
    """Returns Pearson's correlation; 1 if one of the two hardly varies."""
    return float(_pearson(*(values.mean() for values in _moments(source, target))))


def _correlate_windows(
    source: NDArray[np.float64], target: NDArray[np.float64], starts: NDArray[np.int64]
) -> NDArray[np.float64]:
    sums = [np.concatenate(([0.0], np.cumsum(values))) for values in _moments(source, target)]
    return _pearson(*((total[starts + _WINDOW] - total[starts]) / _WINDOW for total in sums))


def _moments(
    source: NDArray[np.float64], target: NDArray[np.float64]
) -> tuple[NDArray[np.float64], ...]:
    return source, target, source * source, target * target, source * target


def _pearson(
    source: NDArray[np.float64],
    target: NDArray[np.float64],
    source_square: NDArray[np.float64],
    target_square: NDArray[np.float64],
    product: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Returns correlations from means of values, squares and products."""
    variances = source_square - source**2, target_square - target**2
    min_variance = _MIN_DEVIATION**2
    varies = np.minimum(*variances) >= min_variance
    deviations = np.sqrt(
        np.maximum(variances[0], min_variance) * np.maximum(variances[1], min_variance)
    )
    return np.where(varies, (product - source * target) / deviations, 1.0)
