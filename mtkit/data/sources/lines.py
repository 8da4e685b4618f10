"""Reads lines from a text file, compressed or not; errors name file and line."""

import bz2
import codecs
import gzip
import io
import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from mtkit.data.cleaning.alignment import find_divergence
from mtkit.data.sources.blocks import BYTE_ORDER_MARK, MAGIC, Decoder, decode_text
from mtkit.errors import MtkitError
from mtkit.recipe.corpus_files import COMPRESSIONS
from mtkit.storage import (
    FileRange,
    Location,
    Url,
    describe_location,
    measure_location,
    open_location,
)

_BUFFER_BYTES = 1 << 18
_PEEK_BYTES = 1 << 16
_LINES_AT_ONCE = 4_096
_MAX_MEASURED = 1 << 25
"""Lines of two files whose divergence is looked for; their lengths are in memory."""
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, OSError)
_TEST_COMMANDS = {
    "gzip": "gzip -t",
    "bzip2": "bzip2 -t",
    "xz": "xz -t",
    "zstd": "zstd -t",
    "zip": "unzip -t",
}


class LineReader:
    r"""Takes raw lines from a stream, some at a time; only "\n" ends a line.

    The stream is closed with the reader. `name` is for messages, by default the path. `version` is
    of a file whose ranges any process can read.
    """

    def __init__(
        self,
        stream: IO[bytes],
        path: Location,
        *,
        name: str = "",
        compression: str = "",
        version: Mapping[str, Any] | None = None,
    ) -> None:
        self._stream = stream
        self._version = version
        self._num_bytes = 0
        self.path = path
        self._compression = compression
        self.name = name or str(path)
        self.num_taken = 0

    @classmethod
    def open(cls, path: Location) -> "LineReader":
        """Returns a reader of a text file, decompressed by its ending."""
        check_is_file(path)
        compression = compression_of(path)
        has_ranges = isinstance(path, Path) and not compression
        version = describe_location(path) if has_ranges else None
        return cls(open_binary(path), path, compression=compression, version=version)

    def __enter__(self) -> "LineReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def take(self, count: int) -> list[bytes]:
        r"""Returns the next lines with their "\n", fewer than `count` only at the end."""
        lines: list[bytes] = []
        with self._reporting_damage():
            try:
                lines.extend(islice(self._stream, count))
            finally:
                # Lines before the damage count too.
                self.num_taken += len(lines)
        self._num_bytes += sum(map(len, lines))
        return lines

    def pack(self, lines: list[bytes]) -> bytes | FileRange:
        """Returns the last lines that were taken as one text, or where it is in the file."""
        if self._version is None:
            return b"".join(lines)
        size = sum(map(len, lines))
        return FileRange(self.path, self._num_bytes - size, size, self._version)

    def peek(self) -> bytes:
        """Returns the start of the next line without taking it; 64 KiB at most."""
        with self._reporting_damage():
            ahead: bytes = cast(io.BufferedReader, self._stream).peek(_PEEK_BYTES)
        return ahead.split(b"\n", 1)[0][:_PEEK_BYTES]

    def count_rest(self) -> int:
        """Takes the remaining lines, and returns their number."""
        count, last = 0, b"\n"
        with self._reporting_damage():
            while chunk := self._stream.read(_BUFFER_BYTES):
                count += chunk.count(b"\n")
                last = chunk[-1:]
        count += last != b"\n"
        self.num_taken += count
        return count

    def _describe_progress(self) -> str:
        return f" after line {self.num_taken}" if self.num_taken else ""

    def _reporting_damage(self) -> AbstractContextManager[None]:
        return reporting_damage(
            self.path, self._compression, self._describe_progress, name=self.name
        )


class LineSource:
    """Rows made of a line of each file, or of one file that holds whole rows.

    The readers are closed with the source.
    """

    num_skipped = 0

    def __init__(self, readers: Sequence[LineReader], decoder: Decoder) -> None:
        self._readers = readers
        self.decoder = decoder
        self.name = " and ".join(reader.name for reader in readers)
        self.no_rows = "no lines in them" if len(readers) > 1 else "no lines of text in it"

    def take(self, count: int) -> Sequence[list[bytes]]:
        """Returns the next lines of each file, which must have the same number of lines."""
        taken = [reader.take(count) for reader in self._readers]
        for reader, lines in zip(self._readers, taken, strict=True):
            if len(lines) != len(taken[0]):
                raise _unequal(self._readers[0], reader)
        return taken

    def pack(self, columns: Sequence[list[bytes]]) -> tuple[bytes | FileRange, ...]:
        """Returns the text of each column as it is in the file, or where it is."""
        return tuple(
            reader.pack(lines) for reader, lines in zip(self._readers, columns, strict=True)
        )


def _unequal(first: LineReader, other: LineReader) -> MtkitError:
    """Returns the error for two readers of which only one is at its end."""
    first_unpaired = min(first.num_taken, other.num_taken) + 1
    longer = first if first.num_taken > other.num_taken else other
    longer.count_rest()
    return MtkitError(
        f"{first.name} has {first.num_taken:,} lines, but {other.name} has "
        f"{other.num_taken:,}: both must have the same number of lines; "
        f"{longer.name}:{first_unpaired} is the first without a counterpart",
        _explain_divergence(first, other),
    )


def _measure_lines(path: Location) -> NDArray[np.int64]:
    """Returns the length of each line in bytes."""
    lengths = [np.zeros(0, np.int64)]
    with LineReader.open(path) as reader:
        while lines := reader.take(_LINES_AT_ONCE):
            lengths.append(np.fromiter(map(len, map(bytes.strip, lines)), np.int64, len(lines)))
    return np.concatenate(lengths)


def _explain_divergence(first: LineReader, other: LineReader) -> str:
    """Returns where two files diverge, by the lengths of their lines, and what to do."""
    number = None
    is_small = max(first.num_taken, other.num_taken) <= _MAX_MEASURED
    # Members of an archive have other names.
    if is_small and all(each.name == str(each.path) for each in (first, other)):
        number = find_divergence(*(_measure_lines(each.path) for each in (first, other)))
    if number is None:
        return "find where they diverge: a missing or repeated line shifts all that follow"
    return (
        f"they seem to diverge near line {number + 1:,}: look for a missing or repeated line there"
    )


@dataclass(frozen=True)
class LineDecoder:
    """Decodes files whose lines are values; `names` are the columns' files.

    `languages` are those of source and target, if known, for messages.
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    languages: tuple[str, str] = ("", "")
    first_number = 1

    def decode(
        self, content: Sequence[bytes | FileRange], number: int, *, drop_invalid: bool
    ) -> tuple[dict[str, list[str]], int]:
        """Returns the lines of each column; see `Decoder`."""
        found = [
            decode_text(
                text, name, number, drop_invalid=drop_invalid, languages=self._languages_of(column)
            )
            for name, column, text in zip(self.names, self.columns, content, strict=True)
        ]
        columns = {column: lines for column, (lines, _) in zip(self.columns, found, strict=True)}
        return columns, len({row for _, invalid in found for row in invalid})

    def _languages_of(self, column: str) -> tuple[str, ...]:
        return self.languages[column == "target" :][:1]

    def locate(self, number: int, column: str) -> str:
        """Returns file and line."""
        index = self.columns.index(column) if column else 0
        return f"{self.names[index]}:{number}"


@contextmanager
def open_lines(
    files: Mapping[str, Location], languages: tuple[str, str] = ("", "")
) -> Iterator[LineSource]:
    """Opens text files with parallel lines, one for each column."""
    for path in files.values():
        check_has_content(path)
    with ExitStack() as stack:
        readers = [stack.enter_context(LineReader.open(path)) for path in files.values()]
        names = tuple(reader.name for reader in readers)
        yield LineSource(readers, LineDecoder(names, tuple(files), languages))


def read_lines(path: Path, *, is_verbatim: bool = False) -> Iterator[str]:
    r"""Yields a text file's lines without their ends.

    Only "\n" ends a line, and a "\r" before it belongs to it. A byte-order mark isn't part of the
    first line. Names in `.gz`, `.bz2`, `.xz` or `.zst` are decompressed. The file may be a named
    pipe: it is read once. If `is_verbatim`, "\r" and a byte-order mark stay, to be reported.
    """
    if not path.is_fifo():
        is_dash = str(path) == "-"
        hint = "is its name right?" if not is_dash else "standard input is /dev/stdin"
        check_is_file(path, hint)
    with LineReader(open_binary(path), path, compression=compression_of(path)) as reader:
        while lines := reader.take(_LINES_AT_ONCE):
            first = reader.num_taken - len(lines) + 1
            decoded, _ = decode_text(b"".join(lines), reader.name, first, drop_invalid=False)
            if is_verbatim:
                decoded = list(map(_put_back, lines, decoded))
            yield from decoded


def _put_back(raw: bytes, line: str) -> str:
    """Returns a line with its original byte-order mark and carriage return."""
    mark = (
        BYTE_ORDER_MARK if raw.startswith(codecs.BOM_UTF8) and line[:1] != BYTE_ORDER_MARK else ""
    )
    return mark + line + ("\r" if raw.endswith(b"\r\n") else "")


def open_binary(path: Location) -> IO[bytes]:
    """Returns a file's bytes as a stream, decompressed by its ending."""
    opened = open_location(path)
    match compression_of(path):
        case "gzip":
            stream: object = gzip.open(opened)  # noqa: SIM115
        case "bzip2":
            stream = bz2.open(opened)  # noqa: SIM115
        case "xz":
            stream = lzma.open(opened)  # noqa: SIM115
        case "zstd":
            # Imported here: it takes a while, and most corpora are compressed differently.
            import pyarrow as pa  # noqa: PLC0415

            stream = pa.CompressedInputStream(pa.PythonFile(opened, "r"), "zstd")
        case _:
            return opened
    return buffered(stream, opened)


@contextmanager
def opening(path: Location) -> Iterator[IO[bytes]]:
    """Yields a file's bytes as a stream, decompressed by its ending; see `reporting_damage`."""
    with reporting_damage(path, compression_of(path)), open_binary(path) as stream:
        yield stream


def compress(content: bytes, path: Path) -> bytes:
    """Returns content, compressed by a file's ending; concatenated, such parts form one file."""
    packing = compression_of(path)
    if packing == "zstd":
        import pyarrow as pa  # noqa: PLC0415

        packed: bytes = pa.compress(content, codec="zstd", asbytes=True)
        return packed
    others: dict[str, Callable[[bytes], bytes]]
    # Without the time, so that the bytes are always the same.
    others = {"gzip": partial(gzip.compress, mtime=0), "bzip2": bz2.compress, "xz": lzma.compress}
    return others[packing](content) if packing else content


class _Buffered(io.BufferedReader):
    """A stream that also closes the stream below the decompressor."""

    below: IO[bytes] | None = None

    def close(self) -> None:
        super().close()
        if self.below is not None:
            self.below.close()


def buffered(stream: object, below: IO[bytes] | None = None) -> IO[bytes]:
    """Returns a stream that finds lines in C, because decompressors find them in slow Python.

    `below` is the stream that the decompressor reads, if it should be closed too.
    """
    found = _Buffered(cast(io.RawIOBase, stream), _BUFFER_BYTES)
    found.below = below
    return found


def compression_of(path: Location) -> str:
    """Returns a file's compression by its ending; empty if it is plain."""
    return COMPRESSIONS.get(path.suffix.lower(), "")


@contextmanager
def reporting_damage(
    path: Location, packing: str, progress: Callable[[], str] = str, *, name: str = ""
) -> Iterator[None]:
    """Turns errors of decompression in damaged files into a `MtkitError`.

    `packing` is a key of `MAGIC`, or empty; `progress` returns how far reading has come, with a
    leading space. `name` is for messages, by default the path.
    """
    try:
        yield
    except PermissionError:
        raise
    except _DAMAGE as error:
        # With a number, the system failed, not the file.
        if isinstance(error, OSError) and error.errno is not None:
            raise MtkitError(
                f"{name or path}: can't be read{progress()}: {error.strerror}",
                "do the disk and the network work? The system's log says more",
            ) from error
        if not packing:
            raise
        with open_location(path) as stream:
            is_such = stream.read(len(MAGIC.get(packing, b""))) == MAGIC.get(packing, b"")
        raise MtkitError(
            f"{name or path}: damaged {packing} file{progress()}: {error}",
            f"`{_TEST_COMMANDS[packing]} {path}` shows more; download or compress it again"
            if is_such
            else f"it is not in {packing} format: if it is plain text, rename it to {path.stem}",
        ) from error


def check_is_file(path: Location, hint: str = "") -> None:
    """Checks that a file is there; `hint` is shown if no file with a similar name is found."""
    if isinstance(path, Url) or path.is_file():
        return
    if path.is_dir():
        raise MtkitError(f"{path}: a folder, not a file", "choose a file in it")
    if os.path.lexists(path):
        raise MtkitError(
            f"{path}: neither a file nor a link to one",
            "write what comes through a pipe or a device into a file first",
        )
    near = [path.with_name(path.name + ending) for ending in COMPRESSIONS]
    found = [str(other) for other in (*near, path.with_suffix("")) if other.is_file()]
    raise MtkitError(
        f"{path}: no such file",
        f"there is {found[0]}: use that"
        if found
        else hint
        or "corpus paths are relative to data_root; to change it: --set data.data_root=FOLDER",
    )


def check_has_content(path: Location) -> None:
    """Checks that a file is there and not empty."""
    check_is_file(path)
    if measure_location(path) == 0:
        raise MtkitError(f"{path}: empty file", "is the file complete?")
