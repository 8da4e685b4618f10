"""Sentences of unequal length, laid end to end in one array."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
"""Indices of sentences, positions or tokens."""


@dataclass(frozen=True)
class Ragged:
    """Token sequences in one array, without padding, and the length of each."""

    tokens: Indices
    lengths: Indices

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]]) -> "Ragged":
        """Returns the sentences in one array."""
        lengths = np.fromiter(map(len, sentences), np.int64, count=len(sentences))
        tokens = np.fromiter(chain.from_iterable(sentences), np.int64, count=int(lengths.sum()))
        return cls(tokens, lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def to_lists(self) -> list[list[int]]:
        """Returns each sentence as a list."""
        return [part.tolist() for part in np.split(self.tokens, np.cumsum(self.lengths))[:-1]]


def join_ranges(starts: Indices, sizes: Indices) -> Indices:
    """Returns start, start + 1, ... for each range of `size` numbers, concatenated."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()), dtype=np.int64)
