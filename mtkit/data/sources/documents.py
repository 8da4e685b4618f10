"""The documents of lines in one language, and how they continue across blocks."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class DocumentRun:
    """The documents of a block's lines.

    Attributes:
        numbers: Number of each line's document in the block, ascending, maybe with gaps, [lines].
        last: The number of the next line after the block, if its document continues.
        opens: Name of the document that the block begins in; None if it has none and so begins a
            new one. Empty if documents have no names.
        closes: Name of the document that the block ends in, likewise.
    """

    numbers: Indices
    last: int
    opens: str | None
    closes: str | None

    def keep(self, indices: Indices) -> "DocumentRun":
        """Returns the run of some of the lines."""
        return replace(self, numbers=self.numbers[indices])


class DocumentCounter:
    """Numbers documents through corpora, block by block; `num_documents` have had a line."""

    def __init__(self) -> None:
        self.num_documents = 0
        self._corpus = self._base = 0
        self._closes: str | None = ""
        self._last = -1

    def number(self, corpus: int, run: DocumentRun) -> Indices:
        """Returns the document number of each kept line of the next block, ascending, [lines]."""
        if corpus != self._corpus or run.opens is None or run.opens != self._closes:
            self._base += 1
        numbers = run.numbers + self._base
        if len(numbers):
            self.num_documents += int(np.count_nonzero(np.diff(numbers)))
            self.num_documents += int(numbers[0] != self._last)
            self._last = int(numbers[-1])
        self._corpus, self._closes = corpus, run.closes
        self._base += run.last
        return numbers
