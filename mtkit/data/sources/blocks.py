"""Blocks of rows of a corpus: raw and cheap to read and to send; decoded in any process."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mtkit.data.sources.documents import DocumentRun, Indices
from mtkit.errors import MtkitError

BYTES_PER_BLOCK = 8 << 20
"""A block ends with the rows that exceed this, so that long lines need no more memory than others:
cleaning needs some thirty times the size of the text."""
ROWS_PER_STEP = 256
"""Rows between two checks of a block's size."""
_LINE_BREAKS = re.compile(r"[\r\n]+")


@dataclass(frozen=True)
class Rows:
    """Decoded rows of a corpus: pairs, lines of one language, or labelled texts.

    Attributes:
        columns: Values of each column: `source` and `target`, with `alignment` where a file gives
            it; `text`; or `text`, `second` and `label`.
        numbers: Number of each row in its file, from 1, [rows].
        locate: Returns where a row is for a message, such as `train.tsv:7`, given its number and
            the name of a column.
        num_invalid: Values that were invalid UTF-8; they contain U+FFFD.
        num_skipped: Entries without a row, such as a unit of a translation memory that lacks a
            language.
        documents: The documents of lines of one language; None for others.
    """

    columns: Mapping[str, list[str]]
    numbers: Indices
    locate: Callable[[int, str], str]
    num_invalid: int = 0
    num_skipped: int = 0
    documents: DocumentRun | None = None


Shape = Callable[[Rows], Rows]
"""Turns the values of a file into the rows of a kind of corpus; picklable."""


class Decoder(Protocol):
    """Turns the content of blocks into values; picklable."""

    @property
    def first_number(self) -> int:
        """Number of the first row of the corpus in its file."""
        ...

    def decode(
        self, content: Any, number: int, *, drop_invalid: bool
    ) -> tuple[dict[str, list[str]], int]:
        """Returns the values of each column, and how many of them were invalid UTF-8.

        Args:
            content: What the source packed.
            number: Number of the first row in the file.
            drop_invalid: Decode invalid UTF-8 as U+FFFD instead of raising.

        Raises:
            MtkitError: Invalid UTF-8, unless `drop_invalid`; a row that can't be parsed.
        """
        ...

    def locate(self, number: int, column: str) -> str:
        """Returns file and number of a row, for messages."""
        ...


class Source(Protocol):
    """An open corpus that gives raw rows in order.

    Attributes:
        name: For messages.
        no_rows: What is said of it where it has no rows.
        num_skipped: Entries so far that are no row.
    """

    name: str
    no_rows: str
    num_skipped: int

    @property
    def decoder(self) -> Decoder:
        """What decodes its rows."""
        ...

    def take(self, count: int) -> Sequence[list[bytes]]:
        """Returns the columns of the next rows, fewer than `count` rows only at the end.

        Raises:
            MtkitError: The file is damaged, or shorter or longer than its counterpart.
        """
        ...

    def pack(self, columns: Sequence[list[bytes]]) -> Any:
        """Returns the columns of a block in a form that is quick to send and to decode."""
        ...


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a corpus, raw.

    Attributes:
        corpus: Index of the entry of `data.train`.
        first: Index of its first row within the corpus.
        num_rows: Number of rows.
        content: What the source packed.
        decoder: What decodes it.
        shape: What makes rows of the values.
        num_skipped: Entries without a row since the block before.
    """

    corpus: int
    first: int
    num_rows: int
    content: Any
    decoder: Decoder
    shape: Shape
    num_skipped: int = 0

    def decode(self, *, drop_invalid: bool) -> Rows:
        r"""Returns its rows; a corpus's `tag` isn't there yet.

        "\r" at a line's end and a byte-order mark at a text file's start are gone.

        Args:
            drop_invalid: Decode invalid UTF-8 as U+FFFD instead of raising.

        Raises:
            MtkitError: Invalid UTF-8, unless `drop_invalid`; a row that can't be parsed.
        """
        number = self.decoder.first_number + self.first
        columns, num_invalid = self.decoder.decode(self.content, number, drop_invalid=drop_invalid)
        numbers = number + np.arange(self.num_rows)
        return self.shape(
            Rows(columns, numbers, self.decoder.locate, num_invalid, self.num_skipped)
        )


@dataclass(frozen=True)
class Reading:
    """How a corpus is cut into blocks.

    Attributes:
        index: Index of the entry of `data.train`.
        rows_per_block: Rows of each block but the last, unless lines are long.
        max_rows: Rows to read; what follows them isn't looked at. None for all.
    """

    index: int
    rows_per_block: int
    max_rows: int | None = None

    def size_at(self, first: int) -> int:
        """Returns the maximum number of rows of the block that starts at a row; 0 at the end."""
        if self.max_rows is None:
            return self.rows_per_block
        return max(0, min(self.rows_per_block, self.max_rows - first))


def cut(source: Source, reading: Reading, shape: Shape) -> Iterator[Block]:
    """Yields a corpus in blocks.

    Args:
        source: The corpus.
        reading: How it is cut.
        shape: What makes rows of its values.

    Raises:
        MtkitError: There is no row in it; what the source raises.
    """
    first = num_skipped = 0
    while size := reading.size_at(first):
        columns = _take(source, size)
        if not columns[0] and source.num_skipped == num_skipped:
            break
        # Without rows where entries are skipped behind the last one.
        yield Block(
            corpus=reading.index,
            first=first,
            num_rows=len(columns[0]),
            content=source.pack(columns),
            decoder=source.decoder,
            shape=shape,
            num_skipped=source.num_skipped - num_skipped,
        )
        num_skipped = source.num_skipped
        first += len(columns[0])
    if not first:
        raise MtkitError(f"{source.name}: {source.no_rows}", "is the file complete?")


def _take(source: Source, size: int) -> list[list[bytes]]:
    """Returns the columns of the next rows: at most `size`, fewer where they are long."""
    columns: list[list[bytes]] = []
    num_bytes = 0
    while not columns or (len(columns[0]) < size and num_bytes <= BYTES_PER_BLOCK):
        wanted = min(ROWS_PER_STEP, size - len(columns[0]) if columns else size)
        step = source.take(wanted)
        columns = columns or [[] for _ in step]
        for column, values in zip(columns, step, strict=True):
            column.extend(values)
            num_bytes += sum(map(len, values))
        if len(step[0]) < wanted:
            break
    return columns


def as_one_line(text: str) -> str:
    r"""Returns text with a space for each run of "\n" and "\r" inside it, and none at its ends."""
    if "\n" in text or "\r" in text:
        return _LINE_BREAKS.sub(" ", text.strip("\r\n"))
    return text


def split_lines(text: str) -> list[str]:
    r"""Returns the lines of a text, parted by each run of "\n" and "\r"."""
    return _LINE_BREAKS.split(text) if "\n" in text or "\r" in text else [text]
