"""Sentences of text in one language, and how documents go on from one block to the next."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

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


@dataclass(frozen=True)
class Sentences:
    """The lines of a block that aren't blank.

    Attributes:
        lines: Their text, without line ends.
        rows: The line or row of the block that each stands in, from 0, [lines].
        documents: Their documents.
        num_invalid: Lines that were invalid UTF-8.
    """

    lines: list[str]
    rows: Indices
    documents: DocumentRun
    num_invalid: int


class TextBlock(Protocol):
    """Some lines or rows of a corpus that follow each other, to be decoded anywhere."""

    @property
    def corpus(self) -> int:
        """Which entry of `data.train` it is of."""
        ...

    @property
    def first(self) -> int:
        """Number of its first line or row within the corpus, from 0."""
        ...

    def decode(self, *, drop_invalid: bool) -> Sentences:
        """Returns its sentences.

        Args:
            drop_invalid: The caller drops what isn't UTF-8: it then holds U+FFFD.

        Raises:
            MtkitError: A line of invalid UTF-8, unless `drop_invalid`; a row that can't be read.
        """
        ...


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
            corpus: Which entry of `data.train` the block is of.
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


def of_texts(
    texts: Sequence[Sequence[str]], names: Sequence[str] | None, num_invalid: int
) -> Sentences:
    """Returns the sentences of a table's rows.

    Args:
        texts: The lines of each row's text.
        names: The name of each row's document; empty for a row that is one by itself. Where there
            are no names, each row is a document.
        num_invalid: Rows that were invalid UTF-8.
    """
    is_new = [True] * len(texts)
    if names is not None:
        is_new = [
            not name or index == 0 or name != names[index - 1] for index, name in enumerate(names)
        ]
    numbers = np.cumsum(is_new, dtype=np.int64) - 1
    kept = [
        (line, row) for row, lines in enumerate(texts) for line in lines if line and line.strip()
    ]
    rows = np.array([row for _, row in kept], dtype=np.int64)
    return Sentences(
        lines=[line for line, _ in kept],
        rows=rows,
        documents=DocumentRun(
            numbers[rows],
            int(numbers[-1]),
            (names[0] or None) if names else None,
            (names[-1] or None) if names else None,
        ),
        num_invalid=num_invalid,
    )
