"""Blocks of a corpus's rows: raw, fast to read and send; any process can decode them.

Errors of decoding name file and line, and how to convert the file.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, Protocol

import numpy as np

from mtkit.data.sources.documents import DocumentRun, Indices
from mtkit.errors import MtkitError
from mtkit.recipe.corpus_files import COMPRESSIONS
from mtkit.storage import FileRange
from mtkit.text.letters import guess_encoding
from mtkit.units import plural

BYTES_PER_BLOCK = 8 << 20
"""A block ends with the row that exceeds this, so that long lines need no more memory than others:
cleaning needs about thirty times the size of the text."""
ROWS_PER_STEP = 256
"""Rows between two checks of a block's size."""
NUMBERS = "line"
"""Column of the numbers that rows have in another file."""
_LINE_BREAKS = re.compile(r"[\r\n]+")


@dataclass(frozen=True)
class Rows:
    """Decoded rows of a corpus: pairs, lines in one language, or labelled texts.

    Attributes:
        columns: `source` and `target`, and `alignment` if a file has it; or `text`; or `text`,
            `second` and `label`.
        numbers: Number of each row in its file, from 1, [rows].
        locate: Returns a location for messages, such as `train.tsv:7`, from row number and column.
        num_invalid: Rows with invalid UTF-8; they contain U+FFFD.
        num_skipped: Entries without a row, such as a translation unit that lacks a language.
        documents: The documents of lines in one language; None for others.
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
        """Number of the corpus's first row in its file."""
        ...

    def decode(
        self, content: Any, number: int, *, drop_invalid: bool
    ) -> tuple[dict[str, list[str]], int]:
        """Returns the values of each column, and how many rows were invalid UTF-8.

        `number` is that of the first row in the file. Invalid UTF-8 becomes U+FFFD if
        `drop_invalid`, and otherwise raises MtkitError, as does a row that can't be parsed.
        """
        ...

    def locate(self, number: int, column: str) -> str:
        """Returns file and number of a row, for messages; of the first file without a column."""
        ...


class Source(Protocol):
    """An open corpus that yields raw rows in order.

    Attributes:
        name: For messages.
        no_rows: The message if it has no rows.
        num_skipped: Entries so far that aren't rows.
    """

    name: str
    no_rows: str
    num_skipped: int

    @property
    def decoder(self) -> Decoder:
        """The decoder of its rows."""
        ...

    def take(self, count: int) -> Sequence[list[bytes]]:
        """Returns the columns of the next rows, fewer than `count` rows only at the end."""
        ...

    def pack(self, columns: Sequence[list[bytes]]) -> Any:
        """Returns the columns of a block in a form that is fast to send and decode."""
        ...


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a corpus, raw.

    Attributes:
        corpus: Index in `data.train`.
        first: Index of its first row in the corpus.
        content: What the source packed.
        num_skipped: Entries without a row since the last block.
    """

    corpus: int
    first: int
    num_rows: int
    content: Any
    decoder: Decoder
    shape: Shape
    num_skipped: int = 0

    def __str__(self) -> str:
        """Returns its rows' location, for messages."""
        first = self.decoder.locate(self.decoder.first_number + self.first, "")
        return f"{self.num_rows:,} rows from {first}"

    def decode(self, *, drop_invalid: bool) -> Rows:
        r"""Returns its rows, without the corpus's `tag`; see `Decoder` for `drop_invalid`.

        "\r" at line ends and a byte-order mark at the start of a text file are removed.
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
        index: Index in `data.train`.
        rows_per_block: Rows of each block except the last, unless lines are long.
        max_rows: Maximum rows; the rest isn't read. None for all.
        skip: Numbers of rows that are left out, in ascending ranges.
    """

    index: int
    rows_per_block: int
    max_rows: int | None = None
    skip: tuple[range, ...] = ()

    def step_at(self, first: int, number: int) -> tuple[int, bool]:
        """Returns how many rows to take from a row on, 0 at the end, and whether they are skipped.

        `first` is the row's index in the corpus, `number` its number in the file.
        """
        size = self.rows_per_block
        if self.max_rows is not None:
            size = max(0, min(size, self.max_rows - first))
        for skipped in self.skip:
            if number < skipped.start:
                return min(size, skipped.start - number), False
            if number < skipped.stop:
                return min(size, skipped.stop - number), True
        return size, False


def split_into_blocks(source: Source, reading: Reading, shape: Shape) -> Iterator[Block]:
    """Yields a corpus in blocks; raises MtkitError if it has no rows."""
    first = num_skipped = 0
    while True:
        number = source.decoder.first_number + first
        size, is_left_out = reading.step_at(first, number)
        if not size:
            break
        num_before = source.num_skipped
        columns = _take(source, size)
        if not columns[0] and source.num_skipped == num_before:
            _check_skip(source.name, reading.skip, number - 1)
            break
        if is_left_out:
            first += len(columns[0])
            continue
        # It has no rows if only skipped entries follow the last row.
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


def _check_skip(name: str, skip: tuple[range, ...], last: int) -> None:
    """Checks that each skipped range begins in the file, whose last row has the number `last`."""
    for skipped in skip:
        if skipped.start > last:
            raise MtkitError(
                f"{name}: `skip` names row {skipped.start:,}, but the last one is {last:,}",
                "correct the range; rows are numbered from 1",
            )


def _take(source: Source, size: int) -> list[list[bytes]]:
    """Returns the columns of the next rows: at most `size`, fewer if they are long."""
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


def as_given(rows: Rows) -> Rows:
    """Returns pairs from text files, with unchanged lines, and their numbers if a file has them."""
    if NUMBERS not in rows.columns:
        return rows
    columns = {name: values for name, values in rows.columns.items() if name != NUMBERS}
    return replace(rows, columns=columns, numbers=np.array(rows.columns[NUMBERS], np.int64))


def as_one_line(text: str) -> str:
    r"""Returns text with each run of "\n" and "\r" replaced by a space, or removed at its ends."""
    if "\n" in text or "\r" in text:
        return _LINE_BREAKS.sub(" ", text.strip("\r\n"))
    return text


def split_lines(text: str) -> list[str]:
    r"""Returns the lines of a text, separated by runs of "\n" and "\r"."""
    return _LINE_BREAKS.split(text) if "\n" in text or "\r" in text else [text]


BYTE_ORDER_MARK = "\ufeff"
"""Windows editors write it before the first line of UTF-8; it isn't part of the line."""
MAGIC = {
    "gzip": b"\x1f\x8b",
    "bzip2": b"BZh",
    "xz": b"\xfd7zXZ\x00",
    "zstd": b"\x28\xb5\x2f\xfd",
    "zip": b"PK",
}
"""First bytes of a file of each kind."""
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def decode_text(
    content: bytes | FileRange,
    name: str,
    first_line: int,
    *,
    drop_invalid: bool,
    languages: Sequence[str] = (),
) -> tuple[list[str], list[int]]:
    r"""Returns lines of a text file without their ends, and indices of those of invalid UTF-8.

    `content` is from `LineReader.pack`; its last "\n" ends its last line. Removes a byte-order mark
    if `first_line` is 1. Invalid UTF-8 becomes U+FFFD if `drop_invalid`, except in a file that is
    UTF-16 or compressed. `languages` are for the error's hint.
    """
    text = (content.read() if isinstance(content, FileRange) else content).removesuffix(b"\n")

    def fault(index: int, error: UnicodeDecodeError) -> MtkitError:
        number = first_line + index
        invalid = list(filter(is_invalid, text.split(b"\n")))
        last = first_line + text.count(b"\n")
        more = f"; also {plural(len(invalid) - 1, 'other line')} up to line {last:,}"
        return MtkitError(
            f"{name}:{number}: byte {error.start + 1} of the line is invalid UTF-8 "
            f"(0x{error.object[error.start]:02x})" + (more if len(invalid) > 1 else ""),
            explain_encoding(PurePath(name), number, invalid, languages),
        )

    is_not_text = first_line == 1 and text.startswith((*_UTF_16, *MAGIC.values()))
    on_fault = None if drop_invalid and not is_not_text else fault
    lines, invalid = decode_lines(text, on_fault)
    if b"\r" in text:
        lines = [line.removesuffix("\r") for line in lines]
    if first_line == 1:
        lines[0] = lines[0].removeprefix(BYTE_ORDER_MARK)
    return lines, invalid


def is_invalid(line: bytes) -> bool:
    """Checks that a line isn't UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return True
    return False


def decode_lines(
    content: bytes, fault: Callable[[int, UnicodeDecodeError], MtkitError] | None
) -> tuple[list[str], list[int]]:
    r"""Returns lines joined by "\n", decoded, and indices of those of invalid UTF-8.

    `fault` makes the error from a line's index and the fault; without it, U+FFFD replaces bytes.
    """
    try:
        return content.decode().split("\n"), []
    except UnicodeDecodeError:
        # Checked line by line only now.
        return decode_values(content.split(b"\n"), fault)


def decode_values(
    values: Sequence[bytes], fault: Callable[[int, UnicodeDecodeError], MtkitError] | None
) -> tuple[list[str], list[int]]:
    """Returns values, decoded, and indices of those of invalid UTF-8; see `decode_lines`."""
    texts: list[str] = []
    invalid: list[int] = []
    for index, value in enumerate(values):
        try:
            texts.append(value.decode())
        except UnicodeDecodeError as error:
            if fault is not None:
                raise fault(index, error) from error
            texts.append(value.decode(errors="replace"))
            invalid.append(index)
    return texts, invalid


def explain_encoding(
    path: PurePath, number: int, invalid: Sequence[bytes], languages: Sequence[str]
) -> str:
    """Returns what to do about a file with invalid lines or values; the first is in row `number`.

    `languages` are those of the text, if known.
    """
    endings = {compression: ending for ending, compression in COMPRESSIONS.items()}
    if number == 1:
        for compression, ending in endings.items():
            if invalid[0].startswith(MAGIC[compression]):
                return f"it is compressed with {compression}: rename it to {path.name}{ending}"
        if invalid[0].startswith(_UTF_16):
            return f"it is UTF-16; convert it: {_convert(path, 'UTF-16')}"
    if encoding := guess_encoding(invalid, languages):
        return f"it looks like {encoding}; convert it: {_convert(path, encoding)}"
    return f"convert it: {_convert(path, 'WINDOWS-1252')}, if that is its encoding"


def _convert(path: PurePath, encoding: str) -> str:
    names = (path, path.with_name(f"{path.stem}.utf8{path.suffix}"))
    return f"iconv -f {encoding} -t UTF-8 {' > '.join(map(shlex.quote, map(str, names)))}"
