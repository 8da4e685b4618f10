"""The sentences of a store by length: sorted once after writing, mapped from disk ever after.

`order.npy` holds rows of the store, sorted by (target length, source length, corpus, row);
`strata.npy` says where in it the sentences of one such length and corpus stand.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.data.batches.ragged import Indices, join_ranges
from mtkit.data.batches.token_store import TokenStore
from mtkit.errors import MtkitError
from mtkit.files import reserve
from mtkit.foreign_files import check_file

STRATUM = np.dtype(
    [(name, np.int64) for name in ("target_length", "source_length", "corpus", "first", "count")]
)
"""One stratum: its sentences' lengths and corpus, and their places in the order."""
_ORDER_FILE = "order.npy"
_STRATA_FILE = "strata.npy"
_ROWS_AT_ONCE = 1 << 18
# Target length, source length and corpus in one number, which sorts as they do.
_CORPUS_BITS, _LENGTH_BITS = 15, 24


class LengthOrder:
    """A store's sentences by length.

    Attributes:
        rows: Rows of the store in order of length, mapped from disk.
        strata: `STRATUM` rows, in the same order.
    """

    def __init__(self, folder: Path) -> None:
        """Opens what `build_order` left in a store's folder.

        Raises:
            MtkitError: It isn't there, or is incomplete.
        """
        try:
            self.rows: NDArray[Any] = _map(folder / _ORDER_FILE)
            # Mapped first: a header can tell of more than there is.
            self.strata: NDArray[np.void] = np.array(_map(folder / _STRATA_FILE))
        except FileNotFoundError as error:
            raise MtkitError(
                f"{error.filename}: no such order of the data", "run `mtkit prepare` again"
            ) from error
        except (ValueError, EOFError) as error:
            raise MtkitError(
                f"{folder / _ORDER_FILE}: incomplete: {error}", "run `mtkit prepare` again"
            ) from error
        if self.strata.dtype != STRATUM or self.rows.dtype.kind != "u" or self.rows.ndim != 1:
            raise MtkitError(
                f"{folder / _ORDER_FILE}: damaged: {self.rows.dtype} and {self.strata.dtype}",
                "run `mtkit prepare` again",
            )

    def __len__(self) -> int:
        return len(self.rows)


def _map(path: Path) -> NDArray[Any]:
    """Returns an array that stays in its file.

    Raises:
        FileNotFoundError: It isn't there.
        ValueError: It is incomplete, or no array.
    """
    check_file(path)
    array = np.load(path, mmap_mode="r")
    if not isinstance(array, np.ndarray):
        raise ValueError("several arrays")  # noqa: TRY004
    return array


def build_order(folder: Path) -> None:
    """Leaves a store's sentences sorted by length beside it; in constant memory.

    A counting sort in two passes over the store: the first counts each length, the second puts
    each sentence in its place.

    Args:
        folder: Of a complete store.
    """
    store = TokenStore(folder)
    (folder / _STRATA_FILE).unlink(missing_ok=True)
    keys, counts = _count(store)
    firsts = np.cumsum(counts) - counts
    order = np.lib.format.open_memmap(
        folder / _ORDER_FILE,
        mode="w+",
        dtype=np.uint32 if len(store) <= 1 << 32 else np.uint64,
        shape=(len(store),),
    )
    reserve(folder / _ORDER_FILE)
    _fill(order, store, keys, firsts)
    order.flush()
    strata = np.empty(len(keys), STRATUM)
    strata["target_length"] = keys >> _LENGTH_BITS + _CORPUS_BITS
    strata["source_length"] = keys >> _CORPUS_BITS & (1 << _LENGTH_BITS) - 1
    strata["corpus"] = keys & (1 << _CORPUS_BITS) - 1
    strata["first"] = firsts
    strata["count"] = counts
    # Last: an order without strata counts as none.
    np.save(folder / _STRATA_FILE, strata)


def _count(store: TokenStore) -> tuple[Indices, Indices]:
    """Returns the keys of all strata, sorted, and how many sentences each has."""
    keys = counts = np.empty(0, dtype=np.int64)
    for rows in _blocks(store):
        found, added = np.unique(_keys(store, rows), return_counts=True)
        merged = np.union1d(keys, found)
        grown = np.zeros(len(merged), dtype=np.int64)
        grown[np.searchsorted(merged, keys)] = counts
        grown[np.searchsorted(merged, found)] += added
        keys, counts = merged, grown
    return keys, counts


def _fill(order: NDArray[Any], store: TokenStore, keys: Indices, firsts: Indices) -> None:
    """Puts every row in its place; `firsts` says where each stratum begins."""
    nexts = firsts.copy()
    for rows in _blocks(store):
        strata = np.searchsorted(keys, _keys(store, rows))
        added = np.bincount(strata, minlength=len(keys))
        present = np.flatnonzero(added)
        places = join_ranges(nexts[present], added[present])
        order[places] = rows[np.argsort(strata, kind="stable")]
        nexts += added


def _blocks(store: TokenStore) -> Iterator[Indices]:
    for first in range(0, len(store), _ROWS_AT_ONCE):
        yield np.arange(first, min(first + _ROWS_AT_ONCE, len(store)))


def _keys(store: TokenStore, rows: Indices) -> Indices:
    """Returns each row's target length, source length and corpus as one number."""
    source_lengths, target_lengths = store.lengths(rows)
    corpora = np.searchsorted(np.cumsum(store.corpus_pairs), rows, side="right")
    keys: Indices = (target_lengths << _LENGTH_BITS | source_lengths) << _CORPUS_BITS | corpora
    return keys
