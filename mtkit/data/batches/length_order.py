"""The sentences of a store by length: sorted once after writing, mapped from disk ever after.

`order.npy` holds rows of the store, sorted by length in each column, the last column's first, then
by corpus and row: of sentence pairs by (target length, source length, corpus, row). `strata.npy`
says where in it the rows of one such length and corpus are.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.data.batches.ragged import Indices, join_ranges
from mtkit.data.batches.token_store import PAIR_COLUMNS, TokenStore
from mtkit.errors import MtkitError
from mtkit.files import reserve
from mtkit.foreign_files import check_file

_ORDER_FILE = "order.npy"
_STRATA_FILE = "strata.npy"
_ROWS_AT_ONCE = 1 << 18
# Lengths and corpus in one number, which sorts as they do.
_CORPUS_BITS, _LENGTH_BITS = 15, 24
_MAX_COLUMNS = 2


def stratum_type(columns: Sequence[str]) -> np.dtype[np.void]:
    """Returns the type of a stratum: its rows' lengths and corpus, and their range in the order."""
    lengths = (f"{column}_length" for column in reversed(columns))
    return np.dtype([(name, np.int64) for name in (*lengths, "corpus", "first", "count")])


class LengthOrder:
    """A store's sentences by length.

    Attributes:
        rows: Rows of the store in order of length, mapped from disk.
        strata: Rows of `stratum_type`, in the same order.
    """

    def __init__(self, folder: Path, columns: Sequence[str] = PAIR_COLUMNS) -> None:
        """Opens what `build_order` wrote into a store's folder.

        Args:
            folder: The folder.
            columns: The columns by whose lengths it was built.

        Raises:
            MtkitError: It isn't there, or is incomplete.
        """
        try:
            self.rows: NDArray[Any] = _map(folder / _ORDER_FILE)
            # Mapped first: a header can tell of more than there is.
            self.strata: NDArray[np.void] = np.array(_map(folder / _STRATA_FILE))
        except FileNotFoundError as error:
            raise MtkitError(
                f"{error.filename}: missing (the data in order of length)",
                "run `mtkit prepare` again",
            ) from error
        except (ValueError, EOFError) as error:
            raise MtkitError(
                f"{folder / _ORDER_FILE}: incomplete: {error}", "run `mtkit prepare` again"
            ) from error
        if (
            self.strata.dtype != stratum_type(columns)
            or self.rows.dtype.kind != "u"
            or self.rows.ndim != 1
        ):
            raise MtkitError(
                f"{folder / _ORDER_FILE}: damaged: {self.rows.dtype} and {self.strata.dtype}",
                "run `mtkit prepare` again",
            )

    def __len__(self) -> int:
        return len(self.rows)


def _map(path: Path) -> NDArray[Any]:
    """Returns an array that stays in its file; a ValueError says that it is incomplete, or none."""
    check_file(path)
    array = np.load(path, mmap_mode="r")
    if not isinstance(array, np.ndarray):
        raise ValueError("several arrays")  # noqa: TRY004
    return array


def build_order(folder: Path, columns: Sequence[str] | None = None) -> None:
    """Writes the order of a store's rows by length beside it; in constant memory.

    A counting sort in two passes over the store: the first counts each length, the second puts
    each row where it belongs.

    Args:
        folder: Of a complete store.
        columns: The columns whose lengths count, two at most; all where None.

    Raises:
        ValueError: Three columns or more.
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
    # Last: an order without strata counts as none.
    np.save(folder / _STRATA_FILE, strata)


def _count(store: TokenStore, columns: Sequence[str]) -> tuple[Indices, Indices]:
    """Returns the keys of all strata, sorted, and how many rows each has."""
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
    """Writes every row into the order; `firsts` has the position where each stratum begins."""
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


def _keys(store: TokenStore, columns: Sequence[str], rows: Indices) -> Indices:
    """Returns each row's lengths, the last column's highest, and corpus as one number."""
    keys: Indices = np.searchsorted(np.cumsum(store.corpus_sizes), rows, side="right")
    lengths = store.lengths(rows)
    for number, column in enumerate(columns):
        keys = keys | lengths[column] << _CORPUS_BITS + number * _LENGTH_BITS
    return keys
