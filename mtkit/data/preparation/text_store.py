"""Cleaned text on disk in named columns, which of its rows are duplicates, and the dropped rows.

Each part is a file, written by the worker that made it. Exact duplicates among any number of rows
are found in constant memory: a row is identified by 128 bits of BLAKE2, which don't collide in
practice. The digests are on disk in the rows' order. They are compared part by part; a part has the
same remainder, so that all copies of a row are together. A stage that drops rows writes a list into
its folder, and `mtkit prepare` joins the lists to `data/dropped.tsv.zst`: zstd frames may follow
each other in a file.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Literal
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mtkit.data.batches.ragged import Indices
from mtkit.data.sources.lines import compress
from mtkit.errors import MtkitError
from mtkit.files import (
    check_file,
    digest,
    digest_bytes,
    digest_file,
    read_json,
    reserve,
    write_atomically,
)

_PARTS_FOLDER = "parts"
_PARTS_FILE = "parts.json"
"""The digest of each part."""
_DUPLICATES_FILE = "is_duplicate.npy"
_MAX_FOR_HYPERGEOMETRIC = 1_000_000_000
"""numpy's maximum."""
# 64-bit offsets, because a block of very long lines exceeds 2 GiB.
_TEXT = pa.large_string()
DOCUMENT_COLUMN = "document"
"""Column with the number of each line's document, ascending; for text in one language."""

ALIGNMENT_COLUMN = "alignment"
"""Column with each pair's links, `0-0 1-2`, if a recipe needs them."""

LINE_COLUMN = "line"
"""Column with the number of each row in its file, from 1."""


@dataclass(frozen=True)
class TextPart:
    """A part of a text store.

    Attributes:
        number: Index of the part.
        corpus: Index in `data.train`.
        is_unique: Which of its rows are selected and not duplicates, [rows].
    """

    number: int
    corpus: int
    is_unique: NDArray[np.bool_]

    @property
    def num_rows(self) -> int:
        """Rows, with those that don't count."""
        return len(self.is_unique)

    def __str__(self) -> str:
        """Returns a name for messages."""
        return f"part {self.number} of the cleaned text"


def make_text_batch(columns: Mapping[str, Sequence[str] | Indices]) -> pa.RecordBatch:
    """Returns sentences by column, such as `source` and `target`, as a part of a text store."""
    schema = _schema(tuple(columns))
    arrays = [pa.array(columns[field.name], type=field.type) for field in schema]
    return pa.record_batch(arrays, schema=schema)


def _schema(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, pa.int64() if name == LINE_COLUMN else _TEXT) for name in columns])


@dataclass(frozen=True)
class WrittenPart:
    """A part of a text store that isn't numbered yet."""

    path: Path
    num_rows: int
    digest: str


def write_part(folder: Path, batch: pa.RecordBatch) -> WrittenPart:
    """Writes the rows of a batch from `make_text_batch` for a `TextStoreWriter`, in any process."""
    # Text shrinks to a third, and reads faster than uncompressed.
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    stream = pa.BufferOutputStream()
    with pa.ipc.new_file(stream, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    content = stream.getvalue().to_pybytes()
    path = folder / _PARTS_FOLDER / f"{uuid4().hex}.unnumbered"
    path.write_bytes(content)
    return WrittenPart(path, batch.num_rows, digest_bytes(content))


class TextStoreWriter:
    """Numbers the parts of a text store; complete when the `with` block ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._digests: list[str] = []

    def __enter__(self) -> "TextStoreWriter":
        (self._folder / _PARTS_FOLDER).mkdir()
        return self

    def append(self, part: WrittenPart, documents: Indices | None = None) -> None:
        """Adds the next part, maybe with the number of each line's document, [rows]."""
        path = _name_part(self._folder, len(self._digests))
        found = part.digest
        if documents is not None:
            np.save(_name_documents(path), documents)
            found = digest([found, digest_file(_name_documents(path))])
        part.path.rename(path)
        self._digests.append(found)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Workers that died left these.
        for path in (self._folder / _PARTS_FOLDER).glob("*.unnumbered"):
            path.unlink()
        if kind is None:
            write_atomically(
                self._folder / _PARTS_FILE, json.dumps({"digests": self._digests}) + "\n"
            )


def _name_part(folder: Path, number: int) -> Path:
    return folder / _PARTS_FOLDER / f"{number:06}.arrow"


def _name_documents(part: Path) -> Path:
    return part.with_suffix(".documents.npy")


class TextStore:
    """Cleaned sentences in parts, rows of named columns, and which of them are duplicates.

    `left_out` is a file of marks, True for each row that isn't selected; None if all are.
    """

    def __init__(self, folder: Path, *, left_out: Path | None = None) -> None:
        self._folder, self._left_out = folder, left_out
        path = folder / _PARTS_FILE
        try:
            self.num_parts = len(read_json(path)["digests"])
        except (FileNotFoundError, KeyError, TypeError) as error:
            raise _damaged(path) from error

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns; the store must have a part."""
        return tuple(self.read_part(0).schema.names)

    def read_part(self, number: int) -> pa.RecordBatch:
        """Returns the columns of one part, with duplicates."""
        path = _name_part(self._folder, number)
        try:
            check_file(path)
            # Read, not mapped: mapped pages would count as this process's memory.
            with pa.OSFile(os.fsencode(path), "rb") as file:
                batch = pa.ipc.open_file(file).get_batch(0)
            documents = _name_documents(path)
            if documents.exists():
                check_file(documents)
                batch = batch.append_column(DOCUMENT_COLUMN, pa.array(np.load(documents)))
        except (FileNotFoundError, EOFError, ValueError, pa.ArrowException) as error:
            raise _damaged(path) from error
        return batch

    def read_unique(self, part: TextPart) -> pa.RecordBatch:
        """Returns the columns of one part, without duplicates and unselected rows."""
        return self.read_part(part.number).filter(pa.array(part.is_unique))

    def list_parts(self, parts: Iterable[tuple[int, int]]) -> Iterator[TextPart]:
        """Yields each part, and which rows count; `parts` has its corpus and size."""
        first = 0
        for number, (corpus, num_rows) in enumerate(parts):
            yield TextPart(number, corpus, self.is_wanted(first, num_rows))
            first += num_rows

    def iterate_unique(self) -> Iterator[pa.RecordBatch]:
        """Yields the columns of each part, without duplicates and unselected rows."""
        first = 0
        for number in range(self.num_parts):
            part = self.read_part(number)
            yield part.filter(pa.array(self.is_wanted(first, part.num_rows)))
            first += part.num_rows

    def is_duplicate(self, first: int, count: int) -> NDArray[np.bool_]:
        """Returns which of `count` rows from `first` on repeat an earlier one."""
        return _read_marks(self._folder / _DUPLICATES_FILE, first, count)

    def is_wanted(self, first: int, count: int) -> NDArray[np.bool_]:
        """Returns which of `count` rows from `first` on are selected and not duplicates."""
        is_left_out = self.is_duplicate(first, count)
        if self._left_out is not None:
            is_left_out |= _read_marks(self._left_out, first, count)
        return ~is_left_out

    def sample(
        self, column: str, size: int, num_unique: int, *, seed: Sequence[int]
    ) -> Iterator[str]:
        """Yields a column of rows that aren't duplicates, drawn evenly, in order.

        The rows don't depend on the column. All are drawn if `size` exceeds their number
        `num_unique`.
        """
        generator = np.random.Generator(np.random.PCG64(list(seed)))
        wanted, left = min(size, num_unique), num_unique
        for part in self.iterate_unique():
            # As many from a part as a draw from the whole would take.
            count = part.num_rows
            share = _share(generator, wanted, left, count)
            wanted, left = wanted - share, left - count
            rows = pa.array(np.sort(generator.choice(count, share, replace=False)))
            yield from part.column(column).take(rows).to_pylist()


def _share(generator: np.random.Generator, wanted: int, left: int, count: int) -> int:
    """Returns how many of `wanted` draws among `left` fall on the next `count`."""
    if count == left:
        return wanted
    if left < _MAX_FOR_HYPERGEOMETRIC:
        return int(generator.hypergeometric(wanted, left - wanted, count))
    # With that many, draws with and without replacement hardly differ.
    return min(wanted, count, int(generator.binomial(count, wanted / left)))


def _read_marks(path: Path, first: int, count: int) -> NDArray[np.bool_]:
    marks: NDArray[np.bool_] = np.load(path, mmap_mode="r")
    return np.array(marks[first : first + count])


def _damaged(path: Path) -> MtkitError:
    return MtkitError(f"{path}: missing or damaged", "run `mtkit prepare` again")


def open_marks(path: Path, num_rows: int) -> NDArray[np.bool_]:
    """Returns a mark for each row of a text store, all False, mapped from a new file."""
    if not num_rows:
        # An empty file can't be mapped.
        np.save(path, np.zeros(0, dtype=np.bool_))
        return np.zeros(0, dtype=np.bool_)
    marks: NDArray[np.bool_] = np.lib.format.open_memmap(
        path, mode="w+", dtype=np.bool_, shape=(num_rows,)
    )
    reserve(path)
    return marks


DROPPED_FILE = "dropped.tsv.zst"
HEADER = ("filter", "file", "line")
"""Columns before those of the text."""
_SEPARATORS = str.maketrans("\t\n\r", "   ")


def join_cells(row: Iterable[object]) -> str:
    """Returns a line of tab-separated text; tabs and newlines of a cell become spaces."""
    return "\t".join(str(value).translate(_SEPARATORS) for value in row) + "\n"


def pack_rows(rows: Iterable[Sequence[object]]) -> bytes:
    """Returns rows as tab-separated lines in a zstd frame; empty if there are none."""
    text = "".join(map(join_cells, rows)).encode(errors="replace")
    return compress(text, Path(DROPPED_FILE)) if text else b""


def pack_stored(
    reason: str, file: str, rows: pa.RecordBatch | pa.Table, columns: Sequence[str]
) -> bytes:
    """Returns rows of a text store that were dropped for a reason, as `pack_rows` does."""
    found = rows.select([LINE_COLUMN, *columns]).to_pydict()
    return pack_rows((reason, file, *row) for row in zip(*found.values(), strict=True))


def append_dropped(folder: Path, frame: bytes) -> None:
    """Adds a frame from `pack_rows` to a stage's list."""
    if frame:
        with (folder / DROPPED_FILE).open("ab") as stream:
            stream.write(frame)


def digest_files(folder: Path) -> list[str]:
    """Returns the digests of a stage's files by name, without subfolders and this list."""
    files = (path for path in sorted(folder.iterdir()) if path.is_file())
    return [digest_file(path) for path in files if path.name != DROPPED_FILE]


def join_dropped(stages: Iterable[Path], folder: Path) -> None:
    """Writes the lists of some stages' folders, where they have one, into a single one."""
    with (folder / DROPPED_FILE).open("wb") as joined:
        for path in (stage / DROPPED_FILE for stage in stages):
            if path.is_file():
                with path.open("rb") as stream:
                    shutil.copyfileobj(stream, joined)


DuplicateKey = Literal["pair", "source", "target", "text"]

_KEY = np.dtype([("high", "<u8"), ("low", "<u8")])
_KEYS_AT_ONCE = 1_000_000
"""Keys read, and about as many compared, at a time: about 100 MB."""


def hash_keys(by: Literal["pair", "source", "target", "either"]) -> tuple[DuplicateKey, ...]:
    """Returns the parts of a pair by which duplicates are found."""
    return ("source", "target") if by == "either" else (by,)


def digest_rows(sides: Sequence[Sequence[str]], key: DuplicateKey) -> bytes:
    """Returns 16 bytes for each row, equal if the rows are equal in `key`."""
    match key:
        case "pair":
            # Sentences don't contain the character between them.
            texts: Iterable[str] = map("\n".join, zip(*sides, strict=True))
        case "source" | "text":
            texts = sides[0]
        case "target":
            texts = sides[1]
    blake2b = hashlib.blake2b
    return b"".join([blake2b(text.encode(), digest_size=16).digest() for text in texts])


def mark_repeated(
    path: Path, marks: NDArray[np.bool_], *, keys_at_once: int = _KEYS_AT_ONCE
) -> None:
    """Sets `marks` to True for each pair with the key of an earlier pair, and changes no others.

    The file has 16 bytes per key, in the pairs' order.
    """
    num_parts = max(1, -(-len(marks) // keys_at_once))
    for part in range(num_parts):
        indices: list[NDArray[np.int64]] = []
        keys: list[NDArray[np.void]] = []
        with path.open("rb") as stream:
            first = 0
            while len(block := np.fromfile(stream, dtype=_KEY, count=keys_at_once)):
                chosen = np.flatnonzero(block["high"] % num_parts == part)
                indices.append(chosen + first)
                keys.append(block[chosen])
                first += len(block)
        if indices:
            _mark_part(np.concatenate(keys), np.concatenate(indices), marks)


def _mark_part(
    keys: NDArray[np.void], indices: NDArray[np.int64], marks: NDArray[np.bool_]
) -> None:
    # The sort is stable: of equal keys the lowest index comes first.
    order = np.argsort(keys["high"], kind="stable")
    is_tied = keys["high"][order[1:]] == keys["high"][order[:-1]]
    touched = np.zeros(len(keys), dtype=np.bool_)
    touched[1:] |= is_tied
    touched[:-1] |= is_tied
    # The few with equal halves are compared in full.
    order = order[touched]
    keys, indices = keys[order], indices[order]
    order = np.lexsort((indices, keys["low"], keys["high"]))
    repeated = keys[order[1:]] == keys[order[:-1]]
    marks[np.sort(indices[order[1:][repeated]])] = True


class KeyFiles:
    """Digests of all pairs in a text store's folder, in order, while the corpora are read."""

    def __init__(self, folder: Path, keys: Sequence[DuplicateKey]) -> None:
        self._folder = folder
        self._paths = [folder / f"{key}.keys" for key in keys]
        self._streams: list[IO[bytes]] = []

    def __enter__(self) -> "KeyFiles":
        self._streams = [path.open("wb") for path in self._paths]
        return self

    def append(self, keys: Sequence[bytes]) -> None:
        """Adds the keys of the next block, 16 bytes per row for each kind of key."""
        for stream, content in zip(self._streams, keys, strict=True):
            stream.write(content)

    def __exit__(self, *_: object) -> None:
        for stream in self._streams:
            stream.close()

    def mark_duplicates(self, pairs_per_corpus: Sequence[int]) -> list[NDArray[np.bool_]]:
        """Returns each corpus's marks, mapped from a text store's file; removes the key files."""
        marks = open_marks(self._folder / _DUPLICATES_FILE, sum(pairs_per_corpus))
        for path in self._paths:
            mark_repeated(path, marks)
            path.unlink()
        return np.split(marks, np.cumsum(pairs_per_corpus)[:-1])
