"""Blocks of a corpus: text that costs little to read and to send, decoded elsewhere."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from mtkit.errors import MtkitError

Decoded = tuple[list[str], list[str], int]
"""Source lines, target lines, and how many lines were invalid UTF-8."""
_LINE_BREAKS = re.compile(r"[\r\n]+")
_LINE_BREAK_BYTES = re.compile(rb"[\r\n]+")
BYTES_PER_BLOCK = 8 << 20
"""A block ends with the pair that passes this, so that long lines take no more memory than others:
cleaning takes some thirty times what the text does."""
LINES_PER_STEP = 256
"""Lines between two looks at a block's size."""


@dataclass(frozen=True)
class LabelledRow:
    """A text with its label.

    Attributes:
        text: The text, in one line; blank where the file has none.
        second: The second text of a pair; empty where there are no pairs.
        label: The label, without white space around it.
        number: Number of its line or row in the file, from 1.
    """

    text: str
    second: str
    label: str
    number: int


@dataclass(frozen=True)
class ReadSettings:
    """How a corpus is read.

    Attributes:
        index: Which entry of `data.train` it is.
        pairs_per_block: Pairs of each block but the last, unless lines are long.
        max_pairs: Pairs to read; what follows them isn't looked at. All where it isn't given.
        languages: Codes of source and target, for kinds that name their languages.
    """

    index: int
    pairs_per_block: int
    max_pairs: int | None
    languages: tuple[str, str]

    def size_at(self, first: int) -> int:
        """Returns how many pairs the block that starts at one may have; none past the last."""
        if self.max_pairs is None:
            return self.pairs_per_block
        return max(0, min(self.pairs_per_block, self.max_pairs - first))


class Origin(Protocol):
    """Where a block comes from; knows how its bytes are decoded, and names their indices."""

    def decode(self, block: "Block", *, drop_invalid: bool) -> Decoded:
        """Returns what `decode_block` does."""
        ...


class Alignments(Protocol):
    """Word alignments of a block's pairs, as they lie in a file."""

    def read(self, sources: Sequence[str], targets: Sequence[str]) -> list[set[tuple[int, int]]]:
        """Returns the indices of source and target word of each link, for each pair."""
        ...


@dataclass(frozen=True)
class Block:
    r"""Some pairs of a corpus that follow each other; `decode_block` turns it into text.

    Attributes:
        corpus: Which entry of `data.train`.
        first: Number of its first pair within the corpus, from 0.
        num_pairs: Number of pairs.
        source: Lines joined by "\n", as they lie in the file where it is a text file. Where a
            line holds both sides (tab-separated text, JSON lines), it is here.
        target: Likewise; empty where `source` holds both sides.
        origin: What decodes both.
        num_skipped: Entries without a pair since the block before: units of a translation memory
            that lack a language.
        alignments: Which words of each pair are aligned; None where the corpus doesn't say.
    """

    corpus: int
    first: int
    num_pairs: int
    source: bytes
    target: bytes
    origin: Origin
    num_skipped: int = 0
    alignments: "Alignments | None" = None


@dataclass(frozen=True)
class RowOrigin:
    """Rows of a table or units of a translation memory.

    Attributes:
        name: What they were read from.
        first_row: Number of the first, from 1.
    """

    name: str
    first_row: int

    def decode(self, block: Block, *, drop_invalid: bool) -> Decoded:
        """Returns what `decode_block` does."""

        def fault(index: int, error: UnicodeDecodeError) -> MtkitError:
            return MtkitError(
                f"{self.name}, row {self.first_row + index}: byte {error.start + 1} of the text "
                f"is invalid UTF-8 (0x{error.object[error.start]:02x})",
                "write the table again with text in UTF-8",
            )

        on_fault = None if drop_invalid else fault
        sources, num_invalid = decode_lines(block.source, on_fault)
        targets, num_invalid_targets = decode_lines(block.target, on_fault)
        return sources, targets, num_invalid + num_invalid_targets


def decode_block(block: Block, *, drop_invalid: bool) -> Decoded:
    r"""Returns both sides of a block, and how many of its lines weren't UTF-8.

    A corpus's `tag` isn't there yet. "\r" at a line's end and a byte-order mark at a text file's
    start are gone.

    Args:
        block: The block.
        drop_invalid: Whether the caller drops what isn't UTF-8: it then holds U+FFFD.

    Raises:
        MtkitError: A line of invalid UTF-8, unless `drop_invalid`; tab-separated text with too few
            columns; JSON that isn't, or lacks a side.
    """
    return block.origin.decode(block, drop_invalid=drop_invalid)


def decode_lines(
    content: bytes, fault: Callable[[int, UnicodeDecodeError], MtkitError] | None
) -> tuple[list[str], int]:
    r"""Returns lines that "\n" joins, decoded, and how many of them weren't UTF-8.

    Args:
        content: The lines.
        fault: Makes the error to raise of a line's index from 0 and what is wrong with it; where
            there is none, the line is decoded with U+FFFD.
    """
    try:
        return content.decode().split("\n"), 0
    except UnicodeDecodeError:
        # Only now is it worth looking at each line.
        pass
    lines, num_invalid = [], 0
    for index, line in enumerate(content.split(b"\n")):
        try:
            lines.append(line.decode())
        except UnicodeDecodeError as error:
            if fault is not None:
                raise fault(index, error) from error
            lines.append(line.decode(errors="replace"))
            num_invalid += 1
    return lines, num_invalid


def group_rows(
    rows: Iterable[tuple[bytes, bytes] | None], name: str, reading: ReadSettings
) -> Iterator[Block]:
    """Yields rows in blocks; a line break inside one becomes a space.

    Args:
        rows: Source and target of each row, or nothing for an entry that is no pair.
        name: What they are read from, for messages.
        reading: How.

    Raises:
        MtkitError: No row at all.
    """
    sources: list[bytes] = []
    targets: list[bytes] = []
    first = num_skipped = num_bytes = 0

    def block() -> Block:
        return Block(
            corpus=reading.index,
            first=first,
            num_pairs=len(sources),
            source=_join(sources),
            target=_join(targets),
            origin=RowOrigin(name, first + 1),
            num_skipped=num_skipped,
        )

    for row in rows:
        if row is None:
            num_skipped += 1
            continue
        # Only once the next pair is there, so that what is skipped behind the last is counted.
        if len(sources) == reading.pairs_per_block or num_bytes > BYTES_PER_BLOCK:
            yield block()
            first += len(sources)
            sources, targets, num_skipped, num_bytes = [], [], 0, 0
        sources.append(row[0])
        targets.append(row[1])
        num_bytes += len(row[0]) + len(row[1])
        if first + len(sources) == reading.max_pairs:
            break
    if not sources:
        raise MtkitError(f"{name}: no rows in it", "is it complete?")
    yield block()


def as_one_line(text: str) -> str:
    r"""Returns text with a space for each run of "\n" and "\r" inside it, and none at its ends."""
    if "\n" in text or "\r" in text:
        return _LINE_BREAKS.sub(" ", text.strip("\r\n"))
    return text


def _join(values: list[bytes]) -> bytes:
    joined = b"\n".join(values)
    if joined.count(b"\n") < len(values) and b"\r" not in joined:
        return joined
    return b"\n".join(_LINE_BREAK_BYTES.sub(b" ", value.strip(b"\r\n")) for value in values)
