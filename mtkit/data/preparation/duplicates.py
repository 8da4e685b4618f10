"""Finds exact duplicates among any number of pairs, in constant memory.

A pair is identified by 128 bits of BLAKE2, which don't collide in practice. The digests are on disk
in the pairs' order. They are compared part by part; a part has the same remainder, so that all
copies of a pair are together.
"""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Literal

import numpy as np
from numpy.typing import NDArray

from mtkit.data.preparation.text_store import open_duplicate_marks

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
        marks = open_duplicate_marks(self._folder, sum(pairs_per_corpus))
        for path in self._paths:
            mark_repeated(path, marks)
            path.unlink()
        return np.split(marks, np.cumsum(pairs_per_corpus)[:-1])
