"""The length of a translation relative to its source."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Lengths = TypeVar("Lengths", float, NDArray[np.float64])
"""Of one line, or of many."""


def compare_lengths(
    source: Lengths, target: Lengths, length_ratio: float, smoothing: int
) -> Lengths:
    """Returns a translation's length divided by the expected one; `smoothing` is in characters."""
    return (target + smoothing) / (length_ratio * source + smoothing)


def measure_length_ratio(
    pairs: Iterable[tuple[str, ...]], measure: Callable[[str], float]
) -> float:
    """Returns target characters per source character over pairs; 1 if a side is empty."""
    source_length = target_length = 0.0
    for source, target in pairs:
        source_length += measure(source)
        target_length += measure(target)
    return target_length / source_length if source_length and target_length else 1.0
