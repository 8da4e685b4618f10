"""The documents of lines of one language, and how they continue from one block to the next."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class DocumentRun:
    """The documents of a block's lines.

    Attributes:
        numbers: Number of each line's document within the block, rising, [lines]; some may be left
            out.
        last: The number that a line behind the block would have, if its document went on.
        opens: Name of the document that the block begins in; None where it has none, and so begins
            a new one. Empty where documents don't go by names.
        closes: Name of the document that it ends in, likewise.
    """

    numbers: Indices
    last: int
    opens: str | None
    closes: str | None

    def keep(self, indices: Indices) -> "DocumentRun":
        """Returns the same of some of the lines."""
        return replace(self, numbers=self.numbers[indices])


class DocumentCounter:
    """Numbers documents through a corpus, block by block, and from one corpus to the next.

    Attributes:
        num_documents: Documents so far that have a line.
    """

    def __init__(self) -> None:
        self.num_documents = 0
        self._corpus = self._base = 0
        self._closes: str | None = ""
        self._last = -1

    def number(self, corpus: int, run: DocumentRun) -> Indices:
        """Returns the number of each line's document, of the next block, rising, [lines].

        Args:
            corpus: Index of the entry of `data.train` that the block is of.
            run: The documents of those of its lines that are kept.
        """
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
