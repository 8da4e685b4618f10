"""Bounds on the outputs of a model that is still being trained, which may not know how to end."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MAX_PERIOD = 5
"""Longest sequence whose repetitions count."""
_MIN_REPEATED = 20
_SLACK = 1.5
"""By how much an output may exceed what every reference keeps to."""
_EXTRA_TOKENS = 10
"""Added to a source's length: a short source may have a much longer translation."""


@dataclass(frozen=True)
class OutputBounds:
    """Bounds that good translations of some text stay within.

    Attributes:
        length_ratio: Maximum tokens of an output per token of its source, each source counted as
            ten tokens longer.
        max_repeated: An output ends if its last tokens, this many, repeat a sequence of at most
            five; None for no such bound.
    """

    length_ratio: float
    max_repeated: int | None

    @classmethod
    def measure(
        cls, source_lengths: Sequence[int], targets: Iterable[Sequence[int]]
    ) -> "OutputBounds":
        """Returns bounds well above the maximum length ratio and repetition of some pairs."""
        ratio, repeated = 0.0, 0
        for length, target in zip(source_lengths, targets, strict=True):
            ratio = max(ratio, len(target) / (length + _EXTRA_TOKENS))
            repeated = max(repeated, _count_repeated(np.asarray(target)))
        return cls(_SLACK * ratio, max(_MIN_REPEATED, 2 * repeated))

    def lower(self, limit: int, source_length: int) -> int:
        """Returns the maximum length of a source's output, `</s>` counted, and at most `limit`."""
        return max(1, int(min(limit, self.length_ratio * (source_length + _EXTRA_TOKENS))))


NO_BOUNDS = OutputBounds(math.inf, None)


def _count_repeated(tokens: NDArray[np.int64]) -> int:
    """Returns the length of the longest part that repeats a short sequence."""
    longest = 0
    for period in range(1, min(MAX_PERIOD, len(tokens) - 1) + 1):
        breaks = np.flatnonzero(tokens[period:] != tokens[:-period])
        edges = np.concatenate(([-1], breaks, [len(tokens) - period]))
        repeated = int(np.diff(edges).max()) - 1
        longest = max(longest, period + repeated if repeated else 0)
    return longest
