"""Finds stretches of a corpus whose sides don't match, as after a line missing on one side.

The lengths of a sentence and its translation are similar: their logarithms correlate at 0.76 or
more in every 500 pairs of the corpora measured (news, captions, everyday sentences, technical
documentation, encyclopedia; German, French, Chinese, Japanese). Shifted by one line, it is at most
0.3, except in some documentation, whose neighbours are similar. It is a warning, not a filter: it
says nothing about a single pair.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from mtkit.units import plural

_WINDOW = 500
"""Pairs per correlation."""
_STEP = 50
"""Pairs from one window to the next."""
_MIN_CORRELATION = 0.5
"""Below it, a window's sides don't match."""
_MIN_DEVIATION = 0.1
"""Minimum standard deviation of log lengths; below it, as in a word list, lengths show nothing."""
_MAX_SHIFT = 50
"""Maximum shift between the sides that is found, in lines."""
_MIN_LINES = 50
"""Minimum length of a part of a stretch with the same shift."""
_MATCHED_CORRELATION = 0.8
"""Assumed correlation of the log lengths of lines that match."""
_OUTLIERS = 0.05
"""Assumed share of matching lines whose lengths don't match."""
_CHANGE = 20.0
"""Cost of a change of shift, in nats; a matching line gives about 0.4."""


class Misaligned(TypedDict):
    """A stretch whose two sides don't match.

    `first` and `last` are positions of pairs, accurate to about 50. `correlation` is that of the
    sides' log lengths. `shift` is how many lines the target lags, negative if it leads, and 0 if no
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
    stretches = list(_find_low(source, target))
    # Between two stretches the same shift may be hidden by neighbours that are alike.
    return list(_segment(source, target, stretches[0][0], stretches[-1][1])) if stretches else []


def describe_misaligned(name: str, found: Misaligned) -> str:
    """Returns where a corpus looks misaligned, and how, for a message."""
    shift, lines = found["shift"], plural(abs(found["shift"]), "line")
    how = f"the target is {lines} {'behind' if shift > 0 else 'ahead'}"
    return (
        f"{name}: lines {found['first']:,} to {found['last']:,} look misaligned "
        f"({how if shift else f'no shift of up to {_MAX_SHIFT} lines helps'}): the correlation of "
        f"source and target lengths is {found['correlation']:.2f}"
    )


def find_divergence(
    source_lengths: NDArray[np.int64], target_lengths: NDArray[np.int64]
) -> int | None:
    """Returns the first line from which two files don't match, from 0; None if they do."""
    num_lines = min(len(source_lengths), len(target_lengths))
    lengths = source_lengths[:num_lines], target_lengths[:num_lines]
    first = next(_find_low(*map(np.log1p, lengths)), None)
    if first is None:
        return None
    # A part is enough, of a file of any size.
    begin = max(0, first[0] - 2 * _WINDOW)
    found = find_misaligned(*(each[begin : first[0] + 3 * _WINDOW] for each in lengths))
    return begin + found[0]["first"] if found else first[0]


def _find_low(
    source: NDArray[np.float64], target: NDArray[np.float64]
) -> Iterator[tuple[int, int]]:
    """Yields first and last index of stretches whose log lengths don't correlate."""
    if len(source) < _WINDOW:
        return
    last_start = len(source) - _WINDOW
    starts = np.append(np.arange(0, last_start, _STEP), last_start)
    is_low = _correlate_windows(source, target, starts) < _MIN_CORRELATION
    yield from _stretches(starts, is_low)


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


def _segment(
    source: NDArray[np.float64], target: NDArray[np.float64], first: int, last: int
) -> Iterator[Misaligned]:
    """Yields the parts of a stretch that one shift explains, or none; aligned ones are left out.

    Each line either matches the target line at one of the shifts, or no line at all. The Viterbi
    algorithm finds the most probable sequence of these states; a change costs `_CHANGE` nats.
    """
    begin, end = max(0, first - _WINDOW), min(len(source), last + 1 + _WINDOW)
    shifts = np.array([0, *(each for each in range(-_MAX_SHIFT, _MAX_SHIFT + 1) if each)])
    places = np.arange(begin, end)[:, None] + shifts
    is_inside = (places >= 0) & (places < len(target))
    difference = target[np.clip(places, 0, len(target) - 1)] - source[begin:end, None]
    difference -= target.mean() - source.mean()
    variance = source.var() + target.var()
    unrelated = _log_normal(difference[:, :1], variance)
    matched = np.logaddexp(
        np.log1p(-_OUTLIERS) + _log_normal(difference, variance * (1 - _MATCHED_CORRELATION)),
        np.log(_OUTLIERS) + _log_normal(difference, variance),
    )
    path = _find_path(np.hstack([np.where(is_inside, matched, unrelated), unrelated]))
    edges = np.flatnonzero(np.diff(path, prepend=-1, append=-1)).tolist()
    for start, stop in pairwise(edges):
        if path[start] and stop - start >= _MIN_LINES:
            lines = slice(begin + start, begin + stop)
            yield {
                "first": lines.start,
                "last": lines.stop - 1,
                "correlation": round(_correlate(source[lines], target[lines]), 3),
                "shift": int(shifts[path[start]]) if path[start] < len(shifts) else 0,
            }


def _log_normal(values: NDArray[np.float64], variance: float) -> NDArray[np.float64]:
    """Returns log densities around 0, without their constant."""
    logs: NDArray[np.float64] = -(values**2) / (2 * variance) - np.log(variance) / 2
    return logs


def _find_path(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns the best state at each step, [steps], from scores of shape [steps, states]."""
    total = scores[0].copy()
    origins = np.tile(np.arange(scores.shape[1]), (len(scores), 1))
    for step in range(1, len(scores)):
        best = int(total.argmax())
        changes = total < total[best] - _CHANGE
        origins[step][changes] = best
        total = np.where(changes, total[best] - _CHANGE, total) + scores[step]
    path = np.empty(len(scores), np.int64)
    state = int(total.argmax())
    for step in range(len(scores) - 1, -1, -1):
        path[step] = state
        state = int(origins[step][state])
    return path


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
