"""The sentences of a store by length: sorted once after writing, then mapped from disk.

`order.npy` holds the store's rows, sorted by the length of each column, last column first, then by
corpus and row; sentence pairs by (target length, source length, corpus, row). `strata.npy` holds
the range of each combination of lengths and corpus.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.data.batches.ragged import Indices, join_ranges
from mtkit.data.batches.token_store import PAIR_COLUMNS, TokenStore, damaged, map_array
from mtkit.files import reserve

_ORDER_FILE = "order.npy"
_STRATA_FILE = "strata.npy"
_ROWS_AT_ONCE = 1 << 18
# A key is one number with lengths and corpus; it sorts as they do.
_CORPUS_BITS, _LENGTH_BITS = 15, 24
_MAX_COLUMNS = 2


def stratum_type(columns: Sequence[str]) -> np.dtype[np.void]:
    """Returns the dtype of a stratum: lengths, corpus, and the range of its rows in the order."""
    lengths = (f"{column}_length" for column in reversed(columns))
    return np.dtype([(name, np.int64) for name in (*lengths, "corpus", "first", "count")])


class LengthOrder:
    """A store's sentences by length.

    Attributes:
        rows: The store's rows in order of length, mapped from disk.
        strata: An array of `stratum_type`, in the same order.
    """

    def __init__(self, folder: Path, columns: Sequence[str] = PAIR_COLUMNS) -> None:
        """Opens what `build_order` wrote; `columns` are the columns that it was built for."""
        self.rows: NDArray[Any] = map_array(folder / _ORDER_FILE)
        # Mapped first, because the header may promise more than the file holds.
        self.strata: NDArray[np.void] = np.array(map_array(folder / _STRATA_FILE))
        if (
            self.strata.dtype != stratum_type(columns)
            or self.rows.dtype.kind != "u"
            or self.rows.ndim != 1
        ):
            raise damaged(folder / _ORDER_FILE, f"{self.rows.dtype} and {self.strata.dtype}")

    def __len__(self) -> int:
        return len(self.rows)


def build_order(folder: Path, columns: Sequence[str] | None = None) -> None:
    """Writes the order of a complete store's rows by length; in constant memory.

    A counting sort in two passes: the first counts each length, the second places each row. At most
    two columns count; None takes all of the store's.
    """
    store = TokenStore(folder)
    columns = store.columns if columns is None else columns
    if len(columns) > _MAX_COLUMNS:
        raise ValueError(f"an order by the lengths of {', '.join(columns)}: two columns at most")
    (folder / _STRATA_FILE).unlink(missing_ok=True)
    keys, counts = _count(store, columns)
    firsts = np.cumsum(counts) - counts
    order = np.lib.format.open_memmap(
        folder / _ORDER_FILE,
        mode="w+",
        dtype=np.uint32 if len(store) <= 1 << 32 else np.uint64,
        shape=(len(store),),
    )
    reserve(folder / _ORDER_FILE)
    _fill(order, store, columns, keys, firsts)
    order.flush()
    strata = np.empty(len(keys), stratum_type(columns))
    strata["corpus"] = keys & (1 << _CORPUS_BITS) - 1
    lengths = keys >> _CORPUS_BITS
    for column in columns:
        strata[f"{column}_length"] = lengths & (1 << _LENGTH_BITS) - 1
        lengths = lengths >> _LENGTH_BITS
    strata["first"] = firsts
    strata["count"] = counts
    # Last, because an order without strata counts as missing.
    np.save(folder / _STRATA_FILE, strata)


def _count(store: TokenStore, columns: Sequence[str]) -> tuple[Indices, Indices]:
    """Returns the sorted keys of all strata, and how many rows each has."""
    keys = counts = np.empty(0, dtype=np.int64)
    for rows in _iterate_rows(store):
        found, added = np.unique(_keys(store, columns, rows), return_counts=True)
        merged = np.union1d(keys, found)
        grown = np.zeros(len(merged), dtype=np.int64)
        grown[np.searchsorted(merged, keys)] = counts
        grown[np.searchsorted(merged, found)] += added
        keys, counts = merged, grown
    return keys, counts


def _fill(
    order: NDArray[Any], store: TokenStore, columns: Sequence[str], keys: Indices, firsts: Indices
) -> None:
    """Writes every row into the order; `firsts` are the strata's first positions."""
    nexts = firsts.copy()
    for rows in _iterate_rows(store):
        strata = np.searchsorted(keys, _keys(store, columns, rows))
        added = np.bincount(strata, minlength=len(keys))
        present = np.flatnonzero(added)
        positions = join_ranges(nexts[present], added[present])
        order[positions] = rows[np.argsort(strata, kind="stable")]
        nexts += added


def _iterate_rows(store: TokenStore) -> Iterator[Indices]:
    for first in range(0, len(store), _ROWS_AT_ONCE):
        yield np.arange(first, min(first + _ROWS_AT_ONCE, len(store)))
        store.release()


def _keys(store: TokenStore, columns: Sequence[str], rows: Indices) -> Indices:
    """Returns each row's key, with the last column's length in the highest bits."""
    keys: Indices = np.searchsorted(np.cumsum(store.corpus_sizes), rows, side="right")
    lengths = store.lengths(rows)
    for number, column in enumerate(columns):
        keys = keys | lengths[column] << _CORPUS_BITS + number * _LENGTH_BITS
    return keys
