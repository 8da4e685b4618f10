"""Values at given ranks of a file of numbers, exact and in constant memory.

Numbers of 32 bits are counted by their upper 16 bits; of the few of those counts that hold a wanted
rank, by their lower 16 bits: two passes over the file, whatever its size.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 1_000_000
_HALF = 1 << 16


def find_ranked(values: NDArray[np.float32], ranks: Sequence[int]) -> list[float]:
    """Returns the values at some ranks in rising order, NaN left out.

    Args:
        values: Numbers, [numbers]; may be mapped from disk.
        ranks: Ranks from 0 on; each less than the count of numbers that aren't NaN.

    Raises:
        IndexError: There are fewer numbers.
    """
    upper = np.zeros(_HALF, dtype=np.int64)
    for keys in _iterate_keys(values):
        upper += np.bincount(keys >> 16, minlength=_HALF)
    ends = np.cumsum(upper)
    if ranks and max(ranks) >= ends[-1]:
        raise IndexError(f"rank {max(ranks)} of {ends[-1]} numbers")
    halves = np.searchsorted(ends, ranks, side="right").tolist()
    lower = {half: np.zeros(_HALF, dtype=np.int64) for half in halves}
    for keys in _iterate_keys(values):
        for half in lower:
            chosen = keys[(keys >> 16) == half]
            lower[half] += np.bincount(chosen & (_HALF - 1), minlength=_HALF)
    found = []
    for rank, half in zip(ranks, halves, strict=True):
        inside = rank - int(ends[half] - upper[half])
        rest = int(np.searchsorted(np.cumsum(lower[half]), inside, side="right"))
        found.append(_to_float((half << 16) | rest))
    return found


def iterate_chunks(values: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    """Yields numbers in order, a bounded number at a time."""
    for first in range(0, len(values), _AT_ONCE):
        yield np.array(values[first : first + _AT_ONCE])


def _iterate_keys(values: NDArray[np.float32]) -> Iterator[NDArray[np.uint32]]:
    """Yields unsigned integers that rise as the numbers do, NaN left out."""
    for chunk in iterate_chunks(values):
        # Zero is added because -0.0 equals 0.0.
        bits = (chunk[~np.isnan(chunk)] + np.float32(0)).view(np.uint32)
        yield np.where(bits >> 31 != 0, ~bits, bits | np.uint32(1 << 31))


def _to_float(key: int) -> float:
    bits = key & ~(1 << 31) if key >> 31 else ~key & 0xFFFFFFFF
    return float(np.array(bits, dtype=np.uint32).view(np.float32))
