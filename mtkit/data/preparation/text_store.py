"""Cleaned text on disk in named columns, of which tokenizer and tokens are made."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mtkit.data.batches.ragged import Indices
from mtkit.errors import MtkitError
from mtkit.files import reserve
from mtkit.foreign_files import check_file

_TEXT_FILE = "text.arrow"
_DUPLICATES_FILE = "is_duplicate.npy"
_MAX_FOR_HYPERGEOMETRIC = 1_000_000_000
"""numpy draws from no more."""
# Offsets of 64 bits: a block of very long lines passes 2 GiB.
_TEXT = pa.large_string()
DOCUMENT_COLUMN = "document"
"""Column with the number of each line's document, rising; text in one language has it."""

ALIGNMENT_COLUMN = "alignment"
"""Column with the words of each pair that are aligned, `0-0 1-2`; pairs of a training whose
alignment is guided have it."""


@dataclass(frozen=True)
class TextPart:
    """A part of a text store.

    Attributes:
        number: Which part.
        corpus: Which entry of `data.train` it is of.
        is_unique: Which of its rows are selected, and no duplicates, [rows].
    """

    number: int
    corpus: int
    is_unique: NDArray[np.bool_]


def make_text_batch(columns: Mapping[str, Sequence[str] | Indices]) -> pa.RecordBatch:
    """Returns sentences by column, such as `source` and `target`, as a part of a text store."""
    schema = _schema(tuple(columns))
    arrays = [pa.array(columns[field.name], type=field.type) for field in schema]
    return pa.record_batch(arrays, schema=schema)


def add_documents(batch: pa.RecordBatch, documents: Indices) -> pa.RecordBatch:
    """Returns sentences with the number of each one's document, as a part of a text store."""
    schema = _schema((*batch.schema.names, DOCUMENT_COLUMN))
    numbers = pa.array(documents, type=pa.int64())
    return pa.record_batch([*batch.columns, numbers], schema=schema)


def _schema(columns: Sequence[str]) -> pa.Schema:
    return pa.schema(
        [(column, pa.int64() if column == DOCUMENT_COLUMN else _TEXT) for column in columns]
    )


class TextStoreWriter:
    """Writes a text store part by part, in constant memory; complete once the `with` block ends.

    Args:
        folder: Where; it must exist.
        columns: Names of the columns.
    """

    def __init__(self, folder: Path, columns: Sequence[str]) -> None:
        self._path, self._schema = folder / _TEXT_FILE, _schema(columns)

    def __enter__(self) -> "TextStoreWriter":
        self._file = pa.OSFile(os.fsencode(self._path), "wb")
        # Text shrinks to a third, and reads faster so than in full.
        options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
        self._writer = pa.ipc.new_file(self._file, self._schema, options=options)
        return self

    def append(self, batch: pa.RecordBatch) -> None:
        """Adds the rows of a batch from `make_text_batch`."""
        self._writer.write_batch(batch)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._writer.close()
        self._file.close()


class TextStore:
    """Cleaned sentences in parts, rows of named columns, and which of them are duplicates.

    Args:
        folder: What a `TextStoreWriter` filled.
        left_out: File of marks, one for each row, True where the row isn't selected; None where all
            are.

    Raises:
        MtkitError: It isn't there, or is incomplete.
    """

    def __init__(self, folder: Path, *, left_out: Path | None = None) -> None:
        self._folder, self._left_out = folder, left_out
        path = folder / _TEXT_FILE
        try:
            check_file(path)
            # Read, not mapped: pages of a map would count as this process's memory.
            self._reader = pa.ipc.open_file(pa.OSFile(os.fsencode(path), "rb"))
        except (FileNotFoundError, pa.ArrowInvalid) as error:
            raise MtkitError(f"{path}: missing or damaged", "run `mtkit prepare` again") from error
        self.num_parts = int(self._reader.num_record_batches)
        self.columns = tuple(self._reader.schema.names)

    def read_part(self, number: int) -> pa.RecordBatch:
        """Returns the columns of one part, duplicates included."""
        return self._reader.get_batch(number)

    def list_parts(self, parts: Iterable[tuple[int, int]]) -> Iterator[TextPart]:
        """Yields each part, and which rows count; `parts` has its corpus and size."""
        first = 0
        for number, (corpus, num_rows) in enumerate(parts):
            yield TextPart(number, corpus, self.is_wanted(first, num_rows))
            first += num_rows

    def iterate_unique(self) -> Iterator[pa.RecordBatch]:
        """Yields the columns of each part, without duplicates and rows that aren't selected."""
        first = 0
        for number in range(self.num_parts):
            part = self.read_part(number)
            yield part.filter(pa.array(self.is_wanted(first, part.num_rows)))
            first += part.num_rows

    def is_duplicate(self, first: int, count: int) -> NDArray[np.bool_]:
        """Returns for each of `count` rows from `first` on whether it repeats an earlier one."""
        return _read_marks(self._folder / _DUPLICATES_FILE, first, count)

    def is_wanted(self, first: int, count: int) -> NDArray[np.bool_]:
        """Returns for each of `count` rows from `first` on whether it is selected, no repeat."""
        is_left_out = self.is_duplicate(first, count)
        if self._left_out is not None:
            is_left_out |= _read_marks(self._left_out, first, count)
        return ~is_left_out

    def sample(
        self, column: str, size: int, num_unique: int, *, seed: Sequence[int]
    ) -> Iterator[str]:
        """Yields a column of rows that are no duplicates, drawn evenly, in order.

        The same rows, whatever the column.

        Args:
            column: Which column.
            size: How many; all where it is more than there are.
            num_unique: How many there are.
            seed: Seed of the draw.
        """
        generator = np.random.Generator(np.random.PCG64(list(seed)))
        wanted, left = min(size, num_unique), num_unique
        for part in self.iterate_unique():
            # Draws from a part as many as a draw from the whole would take of it.
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
    # Of so many, draws with and without replacement hardly differ.
    return min(wanted, count, int(generator.binomial(count, wanted / left)))


def _read_marks(path: Path, first: int, count: int) -> NDArray[np.bool_]:
    marks: NDArray[np.bool_] = np.load(path, mmap_mode="r")
    return np.array(marks[first : first + count])


def open_duplicate_marks(folder: Path, num_rows: int) -> NDArray[np.bool_]:
    """Returns one mark for each row of a text store, all False, in a new file behind it."""
    return open_marks(folder / _DUPLICATES_FILE, num_rows)


def open_marks(path: Path, num_rows: int) -> NDArray[np.bool_]:
    """Returns one mark for each row of a text store, all False, in a new file."""
    if not num_rows:
        # Nothing can't be mapped.
        np.save(path, np.zeros(0, dtype=np.bool_))
        return np.zeros(0, dtype=np.bool_)
    marks: NDArray[np.bool_] = np.lib.format.open_memmap(
        path, mode="w+", dtype=np.bool_, shape=(num_rows,)
    )
    reserve(path)
    return marks
