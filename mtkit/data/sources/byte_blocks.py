r"""Blocks of a file of lines by positions in bytes, so that each is found without the others.

Block b of size s has the lines that begin in bytes [b s, (b + 1) s) of the uncompressed text. A
line begins at 0 or after a "\n".
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO

from mtkit.data.sources.lines import compression_of, damage_told, open_binary
from mtkit.storage import open_location

_CHUNK_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 26
"""A longer line is cut here, and rejected by whatever reads the block."""


@dataclass(frozen=True)
class ByteBlock:
    """A block's lines.

    Attributes:
        number: From 0.
        start: Where they begin, in bytes.
        content: The lines, with their ends.
        first_line: Number of the first line, from 1; None if it hasn't been counted.
    """

    number: int
    start: int
    content: bytes
    first_line: int | None = None

    @property
    def base_line(self) -> int:
        """The number that its first line gets; only 1 may have a byte-order mark."""
        return self.first_line or (2 if self.start else 1)


@dataclass(frozen=True)
class BlockFile:
    """A file of lines in blocks of `block_bytes`; compressed by its ending, or not.

    Attributes:
        is_numbered: Whether blocks need the number of their first line. It takes a reader of all
            blocks before, as a compressed file does.
    """

    path: Path
    block_bytes: int
    is_numbered: bool = False

    def list_items(self, numbers: Sequence[int]) -> Iterable[ByteBlock | int]:
        """Returns blocks, or their numbers if whoever needs one can read it."""
        return self.read_some(numbers) if self._is_sequential else numbers

    @property
    def _is_sequential(self) -> bool:
        return self.is_numbered or bool(compression_of(self.path))

    def count(self) -> int:
        """Returns the number of blocks, at least one; reads a compressed file to its end."""
        if not compression_of(self.path):
            num_bytes = self.path.stat().st_size
        else:
            with self._open() as stream:
                num_bytes = sum(map(len, iter(lambda: stream.read(_CHUNK_BYTES), b"")))
        return max(1, -(-num_bytes // self.block_bytes))

    def read(self, number: int) -> ByteBlock:
        """Returns a block of an uncompressed file."""
        start = number * self.block_bytes
        end = start + self.block_bytes
        with open_location(self.path) as stream:
            if number:
                # From the byte before, which may be the end of a line.
                stream.seek(start - 1)
                start += len(stream.readline(MAX_LINE_BYTES)) - 1
            return ByteBlock(number, start, _take(stream, start, end))

    def read_some(self, numbers: Sequence[int]) -> Iterator[ByteBlock]:
        """Yields blocks with these numbers, which ascend."""
        if not self._is_sequential:
            yield from map(self.read, numbers)
            return
        start, line, wanted = 0, 1, frozenset(numbers)
        with self._open() as stream:
            for number in range(numbers[-1] + 1 if numbers else 0):
                content = _take(stream, start, (number + 1) * self.block_bytes)
                if number in wanted:
                    yield ByteBlock(number, start, content, line)
                start, line = start + len(content), line + content.count(b"\n")

    def locate(self, block: ByteBlock, line: int) -> str:
        """Returns file and line, from a line of a block that begins with `base_line`."""
        if block.first_line is None:
            line += number_line_at(self.path, block.start) - block.base_line
        return f"{self.path}:{line}"

    @contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        with (
            damage_told(self.path, compression_of(self.path), lambda: ""),
            open_binary(self.path) as stream,
        ):
            yield stream


def _take(stream: IO[bytes], start: int, end: int) -> bytes:
    """Returns the lines that begin between two positions, the first of which is the stream's."""
    content = stream.read(end - start) if start < end else b""
    if content and not content.endswith(b"\n"):
        content += stream.readline(MAX_LINE_BYTES + 1)
    return content


@lru_cache
def number_line_at(path: Path, position: int) -> int:
    """Returns the number of the line that begins at a position of an uncompressed file."""
    count = 1
    with open_location(path) as stream:
        while position > 0 and (chunk := stream.read(min(_CHUNK_BYTES, position))):
            count += chunk.count(b"\n")
            position -= len(chunk)
    return count
