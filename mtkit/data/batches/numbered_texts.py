"""Text in one language on disk: rows of a token store, and a number for each.

Blocks of text have the number of their document, which rises. Labelled texts have the number of
their label; `labels.json` has the names.
"""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import numpy as np
from numpy.typing import NDArray

from mtkit.data.batches.length_order import LengthOrder, build_order
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.batches.token_store import (
    TokenStore,
    TokenStoreWriter,
    damaged,
    make_batch,
    map_array,
)
from mtkit.files import parse_json, read_file, write_atomically

TEXT_COLUMNS = ("text",)
_NUMBER = np.dtype("<i8")
_NAMES_FILE = "labels.json"
_MAX_BYTES = 1 << 24
Numbers = Literal["documents", "labels"]
"""What the numbers refer to."""


@dataclass(frozen=True)
class NumberedTexts:
    """Rows of text, their order by length, and the number of each row, mapped from disk."""

    store: TokenStore
    order: LengthOrder
    numbers: NDArray[np.int64]

    @classmethod
    def open(cls, folder: Path, vocab_size: int, what: Numbers = "documents") -> "NumberedTexts":
        """Opens what a `NumberedTextsWriter` wrote; reading checks tokens against `vocab_size`."""
        store = TokenStore(folder, dict.fromkeys(TEXT_COLUMNS, vocab_size))
        numbers = _map_numbers(folder / f"{what}.npy", len(store))
        return cls(store, LengthOrder(folder, TEXT_COLUMNS), numbers)


class NumberedTextsWriter:
    """Writes rows of text in constant memory; complete when the `with` block ends.

    The folder must exist. `labels` are all labels, if the numbers refer to these.
    """

    def __init__(self, folder: Path, vocab_size: int, labels: Sequence[str] | None = None) -> None:
        self._folder, self._labels = folder, labels
        self._what: Numbers = "documents" if labels is None else "labels"
        self._vocab_sizes = dict.fromkeys(TEXT_COLUMNS, vocab_size)
        self._store = TokenStoreWriter(folder, self._vocab_sizes)
        self._num_rows = 0

    def __enter__(self) -> "NumberedTextsWriter":
        self._numbers = (self._folder / f"{self._what}.npy").open("wb")
        _write_header(self._numbers, 0)
        self._store.__enter__()
        return self

    def append(self, rows: Ragged, numbers: Indices, *, corpus: int) -> None:
        """Adds rows with a number each; `corpus` is the index in the recipe's list."""
        if len(numbers) != len(rows):
            raise ValueError(f"{len(numbers)} {self._what} for {len(rows)} rows")
        if len(rows):
            self._store.append(make_batch({"text": rows}, self._vocab_sizes), corpus=corpus)
        self._numbers.write(numbers.astype(_NUMBER).tobytes())
        self._num_rows += len(rows)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._store.__exit__(kind, *rest)
        if kind is None:
            # numpy leaves space in a header for any number of rows.
            self._numbers.seek(0)
            _write_header(self._numbers, self._num_rows)
        self._numbers.close()
        if kind is not None:
            return
        if self._labels is not None:
            text = json.dumps(list(self._labels), ensure_ascii=False)
            write_atomically(self._folder / _NAMES_FILE, text + "\n")
        build_order(self._folder)


def read_labels(folder: Path) -> tuple[str, ...]:
    """Returns the labels of a store."""
    path = folder / _NAMES_FILE
    try:
        names = parse_json(read_file(path, max_bytes=_MAX_BYTES), path)
    except FileNotFoundError as error:
        raise damaged(path, "no such file") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise damaged(path, "expected a list of labels")
    return tuple(names)


def open_labelled(folder: Path, vocab_size: int) -> tuple[NumberedTexts, tuple[str, ...]]:
    """Opens labelled texts; returns them and the labels."""
    texts, names = NumberedTexts.open(folder, vocab_size, "labels"), read_labels(folder)
    if not np.isin(texts.numbers, np.arange(len(names))).all():
        raise damaged(folder / "labels.npy", f"expected numbers below {len(names)}")
    return texts, names


def _write_header(stream: IO[bytes], num_rows: int) -> None:
    """Writes the header of an array of `num_rows` numbers; its length is always the same."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": _NUMBER.str, "fortran_order": False, "shape": (num_rows,)}
    )
    stream.write(header.getvalue())


def _map_numbers(path: Path, num_rows: int) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = map_array(path)
    if numbers.dtype != _NUMBER or numbers.shape != (num_rows,):
        raise damaged(path, f"expected {num_rows:,} numbers")
    return numbers
