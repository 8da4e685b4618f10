"""How long a translation is beside its source."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Lengths = TypeVar("Lengths", float, NDArray[np.float64])
"""Of one line, or of many."""


def compare_lengths(
    source: Lengths, target: Lengths, length_ratio: float, smoothing: int
) -> Lengths:
    """Returns the length of a translation divided by the expected one; 1 as expected.

    Args:
        source: Length of the source.
        target: Length of its translation.
        length_ratio: Target characters per source character, of `measure_length_ratio`.
        smoothing: Characters added to both, so that short lines may differ more.
    """
    return (target + smoothing) / (length_ratio * source + smoothing)


def measure_length_ratio(
    pairs: Iterable[tuple[str, ...]], measure: Callable[[str], float]
) -> float:
    """Returns target characters per source character over pairs that go together.

    Args:
        pairs: Some hundreds or more, such as the development set; 1 if a side of all is empty.
        measure: Length of a line.
    """
    source_length = target_length = 0.0
    for source, target in pairs:
        source_length += measure(source)
        target_length += measure(target)
    return target_length / source_length if source_length and target_length else 1.0
