"""Tokens on disk as a memory-mapped Arrow file; only what is read takes memory.

`tokens.arrow` has named columns of sentences, such as `source` and `target`, or only `text`: lists
of uint16, or of uint32 for a large vocabulary. Any Arrow library reads it. `store.json` has what
would take long to find out from the file.
"""

import mmap
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, NonNegativeInt, ValidationError

from mtkit.data.batches.ragged import Indices, Ragged, join_ranges
from mtkit.errors import MtkitError, shorten
from mtkit.files import (
    as_json_text,
    check_file,
    check_format,
    describe_fault,
    digest_file,
    read_json,
    write_atomically,
)

PAIR_COLUMNS = ("source", "target")

ALIGNMENT_COLUMN = "alignment"
"""Optional third column of pairs: source and target token index of each link, by target index."""

Item = TypeVar("Item")
_FORMAT_VERSION = 2
_TOKENS_FILE = "tokens.arrow"
_FACTS_FILE = "store.json"
_BATCHES_AT_ONCE = 64
"""Record batches that are read before their pages are released."""
_LISTS = (pa.list_(pa.uint16()), pa.list_(pa.uint32()))


def make_batch(columns: Mapping[str, Ragged], vocab_sizes: Mapping[str, int]) -> pa.RecordBatch:
    """Returns sentences, closed by `</s>`, for a `TokenStoreWriter`; under 2^31 tokens a column."""
    schema = _schema(vocab_sizes)
    arrays: list[pa.Array] = []
    for name in schema.names:
        ends = np.cumsum(columns[name].lengths)
        offsets = pa.array(np.concatenate(([0], ends)), pa.int64()).cast(pa.int32())
        tokens = pa.array(columns[name].tokens).cast(schema.field(name).type.value_type)
        arrays.append(pa.ListArray.from_arrays(offsets, tokens))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _schema(vocab_sizes: Mapping[str, int]) -> pa.Schema:
    return pa.schema(
        [
            pa.field(name, _LISTS[size > 1 << 16], nullable=False)
            for name, size in vocab_sizes.items()
        ]
    )


class TokenStoreWriter:
    """Writes a store batch by batch, in constant memory; complete when the `with` block ends.

    The folder must exist. `vocab_sizes` decide each column's width on disk.
    """

    def __init__(self, folder: Path, vocab_sizes: Mapping[str, int]) -> None:
        self._folder = folder
        self._schema = _schema(vocab_sizes)
        self._num_tokens = dict.fromkeys(vocab_sizes, 0)
        self._corpus_sizes: list[int] = []

    def __enter__(self) -> "TokenStoreWriter":
        (self._folder / _FACTS_FILE).unlink(missing_ok=True)
        self._sink = pa.OSFile(os.fsencode(self._folder / _TOKENS_FILE), "wb")
        self._writer = pa.ipc.new_file(self._sink, self._schema)
        return self

    def append(self, batch: pa.RecordBatch, *, corpus: int) -> None:
        """Adds rows from `make_batch`; `corpus` is its index in the recipe, in ascending order."""
        if corpus + 1 < len(self._corpus_sizes):
            raise ValueError(f"corpus {corpus} after corpus {len(self._corpus_sizes) - 1}")
        if batch.schema != self._schema:
            raise ValueError(f"expected columns\n{self._schema}\ngot\n{batch.schema}")
        self._corpus_sizes += [0] * (corpus + 1 - len(self._corpus_sizes))
        self._corpus_sizes[corpus] += batch.num_rows
        for name in self._num_tokens:
            self._num_tokens[name] += len(batch.column(name).flatten())
        self._writer.write_batch(batch)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._writer.close()
        self._sink.close()
        if kind is not None:
            return
        path = self._folder / _TOKENS_FILE
        facts = {
            "format_version": _FORMAT_VERSION,
            "num_rows": sum(self._corpus_sizes),
            **{f"num_{name}_tokens": count for name, count in self._num_tokens.items()},
            "corpus_sizes": self._corpus_sizes,
            "dtype": str(self._schema.field(0).type.value_type),
            "num_bytes": path.stat().st_size,
            "digest": digest_file(path),
        }
        write_atomically(self._folder / _FACTS_FILE, as_json_text(facts, is_ascii=True))


class TokenStore:
    """The sentences of one split, in the order they were written: rows of named columns.

    Reads by position in the mapped file, without Python code per sentence; holds only a few numbers
    per record batch in memory.

    Attributes:
        num_tokens: Tokens by column, `</s>` counted.
        corpus_sizes: Rows of each corpus, in the file's order.
        digest: Digest of the file's bytes when it was written.
    """

    def __init__(self, folder: Path, vocab_sizes: Mapping[str, int] | None = None) -> None:
        """Opens a store; `vocab_sizes`, if given, are its columns and limit their tokens."""
        path = folder / _TOKENS_FILE
        facts = _read_facts(folder)
        self._num_rows = facts.num_rows
        self.corpus_sizes = facts.corpus_sizes
        self.digest = facts.digest
        self._path, self._vocab_sizes = path, vocab_sizes or {}
        if not path.is_file() or check_file(path) != facts.num_bytes:
            raise MtkitError(
                f"{path}: incomplete: expected {facts.num_bytes:,} bytes",
                "run `mtkit prepare` again",
            )
        try:
            with path.open("rb") as file:
                self._mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            mapped = pa.py_buffer(self._mapping)
            reader = pa.ipc.open_file(mapped)
            batches = []
            for number in self._releasing(range(reader.num_record_batches)):
                batches.append(reader.get_batch(number))
                batches[-1].validate()
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            raise damaged(path, str(error)) from error
        schema, num_rows = reader.schema, sum(batch.num_rows for batch in batches)
        if num_rows != self._num_rows or not _has_columns(schema, vocab_sizes):
            raise damaged(path, f"{num_rows:,} rows of\n{schema}")
        # An empty record batch may lack buffers; no row is ever looked up in it.
        batches = [batch for batch in batches if batch.num_rows]
        batch_sizes = np.array([batch.num_rows for batch in batches], dtype=np.int64)
        self._first_rows = np.cumsum(batch_sizes) - batch_sizes
        self._columns: dict[str, _Column] = {}
        self.num_tokens: dict[str, int] = {}
        for field in schema:
            parts = [batch.column(field.name) for batch in batches]
            item = np.dtype(field.type.value_type.to_pandas_dtype())
            self._columns[field.name] = _Column(mapped, parts, item, path)
            counts = (len(part.flatten()) for part in self._releasing(parts))
            self.num_tokens[field.name] = sum(counts)

    def _releasing(self, batches: Iterable[Item]) -> Iterator[Item]:
        """Yields record batches; the system may take back the pages of earlier ones."""
        for number, batch in enumerate(batches):
            yield batch
            if number % _BATCHES_AT_ONCE == 0:
                self.release()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self._columns)

    def __len__(self) -> int:
        return self._num_rows

    def lengths(self, rows: Indices) -> dict[str, Indices]:
        """Returns the tokens of each row's sentences by column, `</s>` counted, [rows]."""
        indices = self._find_batches(rows)
        return {name: column.locate(*indices)[1] for name, column in self._columns.items()}

    def gather(self, rows: Indices, columns: Sequence[str] | None = None) -> dict[str, Ragged]:
        """Returns the rows' sentences by column, in the order of `rows`; all columns if None."""
        indices = self._find_batches(rows)
        found = {}
        for name in self._columns if columns is None else columns:
            found[name] = self._columns[name].gather(*indices)
            largest, size = found[name].tokens.max(initial=0), self._vocab_sizes.get(name)
            if size is not None and largest >= size:
                raise damaged(
                    self._path, f"token id {largest:,} in a vocabulary of {size:,} pieces"
                )
        return found

    def release(self) -> None:
        """Lets the system take back the memory of what was read; it is read again when needed."""
        if hasattr(self._mapping, "madvise"):
            self._mapping.madvise(mmap.MADV_DONTNEED)

    def _find_batches(self, rows: Indices) -> tuple[Indices, Indices]:
        """Returns each row's record batch, and its index in that batch."""
        rows = np.asarray(rows, dtype=np.int64)
        if len(rows) and not (rows.min() >= 0 and rows.max() < len(self)):
            raise IndexError(f"rows {rows.min()} to {rows.max()} of a store of {len(self)}")
        batches = np.searchsorted(self._first_rows, rows, side="right") - 1
        return batches, rows - self._first_rows[batches]


def _has_columns(schema: pa.Schema, expected: Mapping[str, int] | None) -> bool:
    """Checks that columns are lists of tokens and, if given, the expected ones."""
    return (
        bool(schema.names)
        and len(set(schema.names)) == len(schema.names)
        and all(field.type in _LISTS and not field.nullable for field in schema)
        and (expected is None or schema.names == list(expected))
    )


class _Column:
    """Reads lists straight from the mapped file; `parts` are its arrays by record batch."""

    def __init__(
        self, mapped: pa.Buffer, parts: Sequence[pa.Array], item: np.dtype[Any], path: Path
    ) -> None:
        self._path = path
        self._offsets = np.frombuffer(mapped, np.int32, count=mapped.size // 4)
        self._values = np.frombuffer(mapped, item, count=mapped.size // item.itemsize)
        buffers = [(part.buffers()[1], part.buffers()[-1]) for part in parts]
        end = mapped.address + mapped.size
        for buffer in (buffer for pair in buffers for buffer in pair if buffer and buffer.size):
            if not mapped.address <= buffer.address <= end - buffer.size:
                raise damaged(path, "compressed, or written by another program")
        # In items from the start of the file; Arrow aligns every buffer to 8 bytes.
        self._first_offsets = np.array(
            [(offsets.address - mapped.address) // 4 for offsets, _ in buffers], dtype=np.int64
        )
        self._first_values = np.array(
            [
                # Sentences without tokens may have no buffer, or one anywhere.
                (values.address - mapped.address) // item.itemsize if values and values.size else 0
                for _, values in buffers
            ],
            dtype=np.int64,
        )

    def locate(self, batches: Indices, rows: Indices) -> tuple[Indices, Indices]:
        """Returns where each row's list starts, in items from the file's start, and its length."""
        indices = self._first_offsets[batches] + rows
        starts = self._offsets[indices].astype(np.int64)
        lengths = self._offsets[indices + 1] - starts
        firsts = self._first_values[batches] + starts
        if len(rows) and (lengths.min() < 0 or (firsts + lengths).max() > len(self._values)):
            raise damaged(self._path, "its sentences extend past its end")
        return firsts, lengths

    def gather(self, batches: Indices, rows: Indices) -> Ragged:
        starts, lengths = self.locate(batches, rows)
        return Ragged(self._values[join_ranges(starts, lengths)].astype(np.int64), lengths)


class _StoreFacts(BaseModel):
    """The part of `store.json` that is needed to open a store."""

    num_rows: NonNegativeInt
    corpus_sizes: list[NonNegativeInt]
    num_bytes: NonNegativeInt
    digest: str


def _read_facts(folder: Path) -> _StoreFacts:
    path = folder / _FACTS_FILE
    if not path.is_file():
        raise MtkitError(f"{folder}: no prepared data", "run `mtkit prepare`")
    facts = read_json(path)
    check_format(facts, path, _FORMAT_VERSION, "run `mtkit prepare` again")
    try:
        return _StoreFacts.model_validate(facts)
    except ValidationError as error:
        raise damaged(path, describe_fault(error)) from error


def map_array(path: Path) -> NDArray[Any]:
    """Returns an array of prepared data, mapped from its file."""
    try:
        check_file(path)
        array = np.load(path, mmap_mode="r")
    except FileNotFoundError as error:
        raise MtkitError(f"{path}: no such file", "run `mtkit prepare` again") from error
    except (ValueError, EOFError) as error:
        raise damaged(path, str(error)) from error
    if not isinstance(array, np.ndarray):
        raise damaged(path, "several arrays")
    return array


def damaged(path: Path, reason: str) -> MtkitError:
    """Returns the error for a damaged file of prepared data."""
    return MtkitError(f"{path}: damaged: {shorten(reason, 200)}", "run `mtkit prepare` again")
