"""Tokens on disk as an Arrow file, memory-mapped: a corpus costs what is read of it.

`tokens.arrow` has the columns `source` and `target` (lists of uint16, or of uint32 for a large
vocabulary); any Arrow library reads it.
`store.json` beside it holds what the file can't tell quickly.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, NonNegativeInt, ValidationError

from mtkit.data.batches.ragged import Indices, Ragged, join_ranges
from mtkit.errors import MtkitError, shorten
from mtkit.files import digest_file, read_json, write_atomically
from mtkit.foreign_files import check_file, describe_fault

_FORMAT = "mtkit token store"
_FORMAT_VERSION = 1
_TOKENS_FILE = "tokens.arrow"
_FACTS_FILE = "store.json"
_SIDES = ("source", "target")
_VOCAB_SIZES = (1, 1 << 17)
"""One of each width on disk."""


def make_batch(
    source: Ragged,
    target: Ragged,
    *,
    vocab_size: int,
) -> pa.RecordBatch:
    """Returns sentence pairs as a `TokenStoreWriter` takes them; also for use in worker processes.

    Args:
        source: Source tokens, each sentence closed by `</s>`.
        target: Target tokens, likewise; under 2^31 a side.
        vocab_size: The writer's.

    Raises:
        ValueError: The sides differ in number of sentences, or a token doesn't fit.
    """
    schema = _schema(vocab_size)
    columns: list[pa.Array] = []
    for name, side in zip(_SIDES, (source, target), strict=True):
        ends = np.cumsum(side.lengths)
        offsets = pa.array(np.concatenate(([0], ends)), pa.int64()).cast(pa.int32())
        tokens = pa.array(side.tokens).cast(schema.field(name).type.value_type)
        columns.append(pa.ListArray.from_arrays(offsets, tokens))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _schema(vocab_size: int) -> pa.Schema:
    tokens = pa.list_(pa.uint16() if vocab_size <= 1 << 16 else pa.uint32())
    fields = [(side, tokens) for side in _SIDES]
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in fields])


class TokenStoreWriter:
    """Writes a store batch by batch, in constant memory; complete once the `with` block ends.

    Args:
        folder: Where; it must exist.
        vocab_size: Greatest number of pieces of either side, which sets the width on disk.
    """

    def __init__(self, folder: Path, vocab_size: int) -> None:
        self._folder = folder
        self._schema = _schema(vocab_size)
        self._num_tokens = dict.fromkeys(_SIDES, 0)
        self._corpus_pairs: list[int] = []

    @property
    def num_pairs(self) -> int:
        """Pairs written so far."""
        return sum(self._corpus_pairs)

    def __enter__(self) -> "TokenStoreWriter":
        (self._folder / _FACTS_FILE).unlink(missing_ok=True)
        self._sink = pa.OSFile(os.fsencode(self._folder / _TOKENS_FILE), "wb")
        self._writer = pa.ipc.new_file(self._sink, self._schema)
        return self

    def append(self, batch: pa.RecordBatch, *, corpus: int) -> None:
        """Adds pairs, from `make_batch`, behind those written so far.

        Args:
            batch: Any number of pairs.
            corpus: Place in the recipe's list of the corpus they come from.

        Raises:
            ValueError: Pairs of a later corpus stand there already, or another vocabulary's batch.
        """
        if corpus + 1 < len(self._corpus_pairs):
            raise ValueError(f"corpus {corpus} after corpus {len(self._corpus_pairs) - 1}")
        if batch.schema != self._schema:
            raise ValueError(f"expected columns\n{self._schema}\ngot\n{batch.schema}")
        self._corpus_pairs += [0] * (corpus + 1 - len(self._corpus_pairs))
        self._corpus_pairs[corpus] += batch.num_rows
        for side in _SIDES:
            self._num_tokens[side] += len(batch.column(side).flatten())
        self._writer.write_batch(batch)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.close()
        self._sink.close()
        if error is not None:
            return
        path = self._folder / _TOKENS_FILE
        facts = {
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "num_pairs": self.num_pairs,
            "num_source_tokens": self._num_tokens["source"],
            "num_target_tokens": self._num_tokens["target"],
            "corpus_pairs": self._corpus_pairs,
            "dtype": str(self._schema.field("source").type.value_type),
            "num_bytes": path.stat().st_size,
            "digest": digest_file(path),
        }
        write_atomically(self._folder / _FACTS_FILE, json.dumps(facts, indent=2))


class TokenStore:
    """The sentence pairs of one split, in the order they were written.

    Reading is by position in the mapped file, without a step per sentence in Python; what is held
    in memory is a few numbers per record batch.

    Attributes:
        num_source_tokens: Tokens of all sources, `</s>` counted.
        num_target_tokens: Tokens of all targets, `</s>` counted.
        corpus_pairs: Pairs of each corpus; they lie in the file one corpus after the other.
        digest: Digest of the file's bytes when it was written.
    """

    def __init__(self, folder: Path, vocab_sizes: tuple[int, int] | None = None) -> None:
        """Opens a store that a `TokenStoreWriter` made.

        Args:
            folder: Where it lies.
            vocab_sizes: Of source and target, where no token may be beyond them.

        Raises:
            MtkitError: It isn't there, is incomplete, or is of another version's format.
        """
        path = folder / _TOKENS_FILE
        facts = _read_facts(folder)
        self._num_pairs = facts.num_pairs
        self.num_source_tokens = facts.num_source_tokens
        self.num_target_tokens = facts.num_target_tokens
        self.corpus_pairs = facts.corpus_pairs
        self.digest = facts.digest
        self._path, self._vocab_sizes = path, vocab_sizes
        if not path.is_file() or check_file(path) != facts.num_bytes:
            raise MtkitError(
                f"{path}: incomplete: expected {facts.num_bytes:,} bytes",
                "run `mtkit prepare` again",
            )
        with pa.memory_map(os.fsencode(path)) as file:
            mapped = file.read_buffer()
        try:
            reader = pa.ipc.open_file(mapped)
            batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
            for batch in batches:
                batch.validate()
        except (pa.ArrowException, OSError, MemoryError) as error:
            raise _damaged(path, str(error)) from error
        num_pairs = sum(batch.num_rows for batch in batches)
        if reader.schema not in map(_schema, _VOCAB_SIZES) or num_pairs != self._num_pairs:
            raise _damaged(path, f"{num_pairs:,} pairs of\n{reader.schema}")
        # An empty record batch may leave out its buffers, and nothing is ever looked up in it.
        batches = [batch for batch in batches if batch.num_rows]
        num_rows = np.array([batch.num_rows for batch in batches], dtype=np.int64)
        self._first_rows = np.cumsum(num_rows) - num_rows
        self._columns = {
            name: _Column(mapped, [batch.column(name) for batch in batches], item, path)
            for name, item in _item_types(reader.schema).items()
        }

    def __len__(self) -> int:
        return self._num_pairs

    def lengths(self, rows: Indices) -> tuple[Indices, Indices]:
        """Returns the tokens of each source and of each target, `</s>` counted.

        Raises:
            IndexError: There is no such row.
        """
        places = self._place(rows)
        source_lengths, target_lengths = (self._columns[side].locate(*places)[1] for side in _SIDES)
        return source_lengths, target_lengths

    def gather(self, rows: Indices) -> tuple[Ragged, Ragged]:
        """Returns the sources and the targets of some rows, in the order asked for.

        Raises:
            IndexError: There is no such row.
            MtkitError: A token is beyond the vocabulary.
        """
        places = self._place(rows)
        source, target = (self._columns[side].gather(*places) for side in _SIDES)
        for side, size in zip((source, target), self._vocab_sizes or (), strict=False):
            if len(side.tokens) and side.tokens.max() >= size:
                raise _damaged(self._path, f"token {side.tokens.max():,} of {size:,} pieces")
        return source, target

    def _place(self, rows: Indices) -> tuple[Indices, Indices]:
        """Returns each row's record batch, and its number within that."""
        rows = np.asarray(rows, dtype=np.int64)
        if len(rows) and not (rows.min() >= 0 and rows.max() < len(self)):
            raise IndexError(f"rows {rows.min()} to {rows.max()} of a store of {len(self)}")
        batches = np.searchsorted(self._first_rows, rows, side="right") - 1
        return batches, rows - self._first_rows[batches]


class _Column:
    """Reads lists straight from the mapped file.

    Args:
        mapped: The whole file.
        parts: The column's array in each record batch that has rows.
        item: Type of the lists' items.
        path: The file, for messages.

    Raises:
        MtkitError: An array lies elsewhere, as one does that is compressed.
    """

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
                raise _damaged(path, "compressed, or written by another program")
        # Counted in items from the file's begin; Arrow aligns every buffer to 8 bytes.
        self._first_offsets = np.array(
            [(offsets.address - mapped.address) // 4 for offsets, _ in buffers], dtype=np.int64
        )
        self._first_values = np.array(
            [
                # Sentences without any token may have no buffer, or one anywhere.
                (values.address - mapped.address) // item.itemsize if values and values.size else 0
                for _, values in buffers
            ],
            dtype=np.int64,
        )

    def locate(self, batches: Indices, rows: Indices) -> tuple[Indices, Indices]:
        """Returns where each row's list begins, in items from the file's begin, and its length."""
        places = self._first_offsets[batches] + rows
        starts = self._offsets[places].astype(np.int64)
        lengths = self._offsets[places + 1] - starts
        firsts = self._first_values[batches] + starts
        if len(rows) and (lengths.min() < 0 or (firsts + lengths).max() > len(self._values)):
            raise _damaged(self._path, "its sentences reach past its end")
        return firsts, lengths

    def gather(self, batches: Indices, rows: Indices) -> Ragged:
        """Returns some rows' lists."""
        starts, lengths = self.locate(batches, rows)
        return Ragged(self._values[join_ranges(starts, lengths)].astype(np.int64), lengths)


def _item_types(schema: pa.Schema) -> dict[str, np.dtype[Any]]:
    return {field.name: np.dtype(field.type.value_type.to_pandas_dtype()) for field in schema}


class _Facts(BaseModel):
    """What `store.json` holds, beside format and width."""

    num_pairs: NonNegativeInt
    num_source_tokens: NonNegativeInt
    num_target_tokens: NonNegativeInt
    corpus_pairs: list[NonNegativeInt]
    num_bytes: NonNegativeInt
    digest: str


def _read_facts(folder: Path) -> _Facts:
    path = folder / _FACTS_FILE
    if not path.is_file():
        raise MtkitError(f"{folder}: no prepared data", "run `mtkit prepare`")
    facts = read_json(path)
    found = (facts.get("format"), facts.get("format_version"))
    if found != (_FORMAT, _FORMAT_VERSION):
        raise MtkitError(
            f"{folder} was prepared by another version of mtkit: expected {_FORMAT} "
            f"{_FORMAT_VERSION}, found {found[0]} {found[1]}",
            "run `mtkit prepare` again",
        )
    try:
        return _Facts.model_validate(facts)
    except ValidationError as error:
        raise _damaged(path, describe_fault(error)) from error


def _damaged(path: Path, reason: str) -> MtkitError:
    return MtkitError(f"{path}: damaged: {shorten(reason, 200)}", "run `mtkit prepare` again")
