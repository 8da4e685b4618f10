"""Cleaned sentence pairs on disk: what tokenizer and tokens are made of, and made of again."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mtkit.errors import MtkitError
from mtkit.files import reserve
from mtkit.foreign_files import check_file

_TEXT_FILE = "text.arrow"
_DUPLICATES_FILE = "is_duplicate.npy"
_MAX_FOR_HYPERGEOMETRIC = 1_000_000_000
"""numpy draws from no more."""
# Offsets of 64 bits: a block of very long lines passes 2 GiB.
_SCHEMA = pa.schema([("source", pa.large_string()), ("target", pa.large_string())])


def make_text_batch(sources: Sequence[str], targets: Sequence[str]) -> pa.RecordBatch:
    """Returns sentence pairs as a part of a text store."""
    columns = [pa.array(lines, type=pa.large_string()) for lines in (sources, targets)]
    return pa.record_batch(columns, schema=_SCHEMA)


class TextStoreWriter:
    """Writes a text store part by part, in constant memory; complete once the `with` block ends.

    Args:
        folder: Where; it must exist.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / _TEXT_FILE

    def __enter__(self) -> "TextStoreWriter":
        self._file = pa.OSFile(os.fsencode(self._path), "wb")
        # Text shrinks to a third, and reads faster so than in full.
        options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
        self._writer = pa.ipc.new_file(self._file, _SCHEMA, options=options)
        return self

    def append(self, batch: pa.RecordBatch) -> None:
        """Adds the pairs of a batch from `make_text_batch`."""
        self._writer.write_batch(batch)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._writer.close()
        self._file.close()


class TextStore:
    """Cleaned sentence pairs in parts, and which of them are duplicates.

    Args:
        folder: What a `TextStoreWriter` filled.

    Raises:
        MtkitError: It isn't there, or is incomplete.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        path = folder / _TEXT_FILE
        try:
            check_file(path)
            # Read, not mapped: pages of a map would count as this process's memory.
            self._reader = pa.ipc.open_file(pa.OSFile(os.fsencode(path), "rb"))
        except (FileNotFoundError, pa.ArrowInvalid) as error:
            raise MtkitError(f"{path}: missing or damaged", "run `mtkit prepare` again") from error
        self.num_parts = int(self._reader.num_record_batches)

    def read_part(self, number: int) -> tuple[pa.Array, pa.Array]:
        """Returns the sources and targets of one part, duplicates included."""
        batch = self._reader.get_batch(number)
        return batch.column(0), batch.column(1)

    def iterate_kept(self) -> Iterator[tuple[pa.Array, pa.Array]]:
        """Yields the sources and targets of each part, without duplicates."""
        first = 0
        for number in range(self.num_parts):
            sources, targets = self.read_part(number)
            is_kept = pa.array(~self.is_duplicate(first, len(sources)))
            first += len(sources)
            yield sources.filter(is_kept), targets.filter(is_kept)

    def is_duplicate(self, first: int, count: int) -> NDArray[np.bool_]:
        """Returns for each of `count` pairs from `first` on whether it repeats an earlier one."""
        marks: NDArray[np.bool_] = np.load(self._folder / _DUPLICATES_FILE, mmap_mode="r")
        return np.array(marks[first : first + count])

    def sample(self, size: int, num_kept: int, *, seed: Sequence[int]) -> Iterator[tuple[str, str]]:
        """Yields `size` pairs that are no duplicates, drawn evenly, in order; all where it is more.

        Args:
            size: How many.
            num_kept: How many there are.
            seed: Seed of the draw.
        """
        generator = np.random.Generator(np.random.PCG64(list(seed)))
        wanted, left = min(size, num_kept), num_kept
        for sources, targets in self.iterate_kept():
            # Draws from a part as many as a draw from the whole would take of it.
            count = len(sources)
            share = _share(generator, wanted, left, count)
            wanted, left = wanted - share, left - count
            places = pa.array(np.sort(generator.choice(count, share, replace=False)))
            yield from zip(
                sources.take(places).to_pylist(), targets.take(places).to_pylist(), strict=True
            )


def _share(generator: np.random.Generator, wanted: int, left: int, count: int) -> int:
    """Returns how many of `wanted` draws among `left` fall on the next `count`."""
    if count == left:
        return wanted
    if left < _MAX_FOR_HYPERGEOMETRIC:
        return int(generator.hypergeometric(wanted, left - wanted, count))
    # Of so many, draws with and without replacement hardly differ.
    return min(wanted, count, int(generator.binomial(count, wanted / left)))


def open_duplicate_marks(folder: Path, num_pairs: int) -> NDArray[np.bool_]:
    """Returns one mark for each pair of a text store, all False, in a new file behind it."""
    path = folder / _DUPLICATES_FILE
    if not num_pairs:
        # Nothing can't be mapped.
        np.save(path, np.zeros(0, dtype=np.bool_))
        return np.zeros(0, dtype=np.bool_)
    marks: NDArray[np.bool_] = np.lib.format.open_memmap(
        path, mode="w+", dtype=np.bool_, shape=(num_pairs,)
    )
    reserve(path)
    return marks
