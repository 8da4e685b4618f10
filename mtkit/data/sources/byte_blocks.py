r"""Blocks of a file of lines by positions in bytes, so that each is found without the others.

Block b of size s has the lines that begin in bytes [b s, (b + 1) s) of the uncompressed text. A
line begins at 0 or after a "\n".
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import IO

from mtkit.data.sources.lines import compression_of, opening
from mtkit.storage import Location, measure_location, open_location

_CHUNK_BYTES = 1 << 20
_MAX_LINE_BYTES = 1 << 26
"""A longer line is cut, and rejected by whatever reads the block."""


@dataclass(frozen=True)
class ByteBlock:
    """The lines of a block, with their ends.

    Attributes:
        number: From 0.
        content: Empty if it hasn't been read.
        first_line: Number of its first line, from 1; None if it hasn't been counted.
    """

    number: int
    content: bytes = b""
    first_line: int | None = None

    def __str__(self) -> str:
        """Returns its name, for messages."""
        return f"block {self.number:,} of the file"

    @property
    def base_line(self) -> int:
        """The number that its first line gets; only 1 may have a byte-order mark."""
        return self.first_line or (2 if self.number else 1)


@dataclass(frozen=True)
class BlockFile:
    """A file of lines in blocks; compressed by its ending, or not.

    Attributes:
        is_sequential: Whether blocks are read one after the other, as a compressed file's must be;
            then the lines before each are counted.
    """

    path: Location
    block_bytes: int
    is_sequential: bool

    def count(self) -> int:
        """Returns the number of blocks, at least one; reads a compressed file to its end."""
        num_bytes = measure_location(self.path) or 0
        if compression_of(self.path):
            with opening(self.path) as stream:
                num_bytes = sum(map(len, iter(lambda: stream.read(_CHUNK_BYTES), b"")))
        return max(1, -(-num_bytes // self.block_bytes))

    def read(self, number: int) -> ByteBlock:
        """Returns a block of an uncompressed file."""
        start = end = number * self.block_bytes
        with open_location(self.path) as stream:
            if number:
                # From the byte before, which may be the end of a line.
                stream.seek(start - 1)
                start += len(stream.readline(_MAX_LINE_BYTES)) - 1
            return ByteBlock(number, _take(stream, start, end + self.block_bytes))

    def fill(self, block: ByteBlock) -> ByteBlock:
        """Returns a block with its content."""
        return block if block.content or self.is_sequential else self.read(block.number)

    def read_some(self, numbers: Sequence[int]) -> Iterator[ByteBlock]:
        """Yields blocks with these numbers, which ascend."""
        if not self.is_sequential:
            yield from map(self.read, numbers)
            return
        start, line, wanted = 0, 1, frozenset(numbers)
        with opening(self.path) as stream:
            for number in range(numbers[-1] + 1 if numbers else 0):
                content = _take(stream, start, (number + 1) * self.block_bytes)
                if number in wanted:
                    yield ByteBlock(number, content, line)
                start, line = start + len(content), line + content.count(b"\n")

    def locate(self, block: ByteBlock, line: int) -> str:
        """Returns file and line, from a line of a block that begins with `base_line`."""
        if block.first_line is None:
            line += 1 - block.base_line + _count_lines_before(self, block.number)
        return f"{self.path}:{line}"


def _take(stream: IO[bytes], start: int, end: int) -> bytes:
    """Returns the lines that begin between two positions, the first of which is the stream's."""
    content = stream.read(max(0, end - start))
    return content if content[-1:] in b"\n" else content + stream.readline(_MAX_LINE_BYTES + 1)


@lru_cache
def _count_lines_before(file: BlockFile, number: int) -> int:
    return sum(file.read(each).content.count(b"\n") for each in range(number))
