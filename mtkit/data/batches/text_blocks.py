"""Text in one language on disk: rows of a token store, and a number beside each.

Blocks of text have the number of their document, labelled texts that of their label. A block is a
stretch of one document's tokens. `documents.npy` beside the store's files holds a number for each
row; numbers rise from 0 on, and none is left out.
"""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from mtkit.data.batches.length_order import LengthOrder, build_order
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.batches.token_store import TokenStore, TokenStoreWriter, make_batch
from mtkit.errors import MtkitError
from mtkit.files import write_atomically
from mtkit.foreign_files import check_file, parse_json, read_file

TEXT_COLUMNS = ("text",)
"""The column of a store of text in one language."""
_DOCUMENTS_FILE = "documents.npy"
_NUMBER = np.dtype("<i8")


@dataclass(frozen=True)
class TextBlocks:
    """Blocks of text.

    Attributes:
        store: Their tokens, in the column `text`.
        order: The same rows by length.
        documents: The number of each row's document, rising, [rows]; mapped from disk.
    """

    store: TokenStore
    order: LengthOrder
    documents: NDArray[np.int64]

    @classmethod
    def open(cls, folder: Path, vocab_size: int) -> "TextBlocks":
        """Opens what a `TextBlocksWriter` wrote.

        Args:
            folder: Where it lies.
            vocab_size: Pieces of the vocabulary, which no token may be beyond.

        Raises:
            MtkitError: It isn't there, is incomplete or damaged.
        """
        store = TokenStore(folder, dict.fromkeys(TEXT_COLUMNS, vocab_size))
        documents = _map_documents(folder / _DOCUMENTS_FILE, len(store))
        return cls(store, LengthOrder(folder, TEXT_COLUMNS), documents)


class _NumberedRowsWriter:
    """Writes rows of text, each of which has a number."""

    def __init__(self, folder: Path, vocab_size: int) -> None:
        self._folder = folder
        self._vocab_sizes = dict.fromkeys(TEXT_COLUMNS, vocab_size)
        self._store = TokenStoreWriter(folder, self._vocab_sizes)

    def _append(self, rows: Ragged, numbers: Indices, corpus: int, names: str) -> None:
        if len(numbers) != len(rows):
            raise ValueError(names.format(len(numbers), len(rows)))
        if len(rows):
            self._store.append(make_batch({"text": rows}, self._vocab_sizes), corpus=corpus)


class TextBlocksWriter(_NumberedRowsWriter):
    """Writes blocks in constant memory; complete once the `with` block ends.

    Args:
        folder: Where; it must exist.
        vocab_size: Pieces of the vocabulary.
    """

    _num_rows = 0

    def __enter__(self) -> "TextBlocksWriter":
        self._documents = (self._folder / _DOCUMENTS_FILE).open("wb")
        _write_header(self._documents, 0)
        self._store.__enter__()
        return self

    def append(self, blocks: Ragged, documents: Indices, *, corpus: int) -> None:
        """Adds blocks behind those written so far.

        Args:
            blocks: Their tokens.
            documents: The number of each block's document, [blocks].
            corpus: Index in the recipe's list of the corpus that they come from.

        Raises:
            ValueError: Not one document for each block.
        """
        self._append(blocks, documents, corpus, "{} documents for {} blocks")
        self._documents.write(documents.astype(_NUMBER).tobytes())
        self._num_rows += len(blocks)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._store.__exit__(kind, *rest)
        if kind is None:
            # numpy leaves room in a header for any number of rows.
            self._documents.seek(0)
            _write_header(self._documents, self._num_rows)
        self._documents.close()
        if kind is None:
            build_order(self._folder)


def _write_header(stream: IO[bytes], num_rows: int) -> None:
    """Writes the header of an array of `num_rows` numbers, which is as long for any number."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": _NUMBER.str, "fortran_order": False, "shape": (num_rows,)}
    )
    stream.write(header.getvalue())


def _map_documents(path: Path, num_rows: int) -> NDArray[np.int64]:
    try:
        check_file(path)
        documents = np.load(path, mmap_mode="r")
    except FileNotFoundError as error:
        raise MtkitError(f"{path}: no such file", "run `mtkit prepare` again") from error
    except (ValueError, EOFError) as error:
        raise _damaged(path, str(error)) from error
    is_array = isinstance(documents, np.ndarray) and documents.dtype == _NUMBER
    if not is_array or documents.shape != (num_rows,):
        raise _damaged(path, f"expected {num_rows:,} numbers")
    found: NDArray[np.int64] = documents
    return found


_NUMBERS_FILE = "labels.npy"
_NAMES_FILE = "labels.json"
_MAX_BYTES = 1 << 24


@dataclass(frozen=True)
class LabelledTexts:
    """Texts with labels, whose numbers are in `labels.npy`, and names in `labels.json`.

    Attributes:
        store: Their tokens, in the column `text`.
        order: The same rows by length.
        numbers: The number of each row's label, [rows].
        names: The labels.
    """

    store: TokenStore
    order: LengthOrder
    numbers: NDArray[np.int64]
    names: tuple[str, ...]

    @classmethod
    def open(cls, folder: Path, vocab_size: int) -> "LabelledTexts":
        """Opens what a `LabelledStoreWriter` wrote.

        Args:
            folder: Where it lies.
            vocab_size: Pieces of the vocabulary, which no token may be beyond.

        Raises:
            MtkitError: It isn't there, is incomplete or damaged.
        """
        store = TokenStore(folder, dict.fromkeys(TEXT_COLUMNS, vocab_size))
        names = read_labels(folder)
        path = folder / _NUMBERS_FILE
        try:
            check_file(path)
            numbers = np.load(path)
        except (FileNotFoundError, ValueError, EOFError) as error:
            raise _damaged(path, str(error)) from error
        if not isinstance(numbers, np.ndarray) or numbers.dtype != _NUMBER:
            raise _damaged(path, "expected whole numbers")
        if numbers.shape != (len(store),) or not np.isin(numbers, np.arange(len(names))).all():
            raise _damaged(path, f"expected {len(store):,} numbers below {len(names)}")
        return cls(store, LengthOrder(folder, TEXT_COLUMNS), numbers, names)


def read_labels(folder: Path) -> tuple[str, ...]:
    """Returns the labels of a store.

    Raises:
        MtkitError: They aren't there, or damaged.
    """
    path = folder / _NAMES_FILE
    try:
        names = parse_json(read_file(path, max_bytes=_MAX_BYTES), path)
    except FileNotFoundError as error:
        raise _damaged(path, "no such file") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _damaged(path, "expected a list of labels")
    return tuple(names)


class LabelledStoreWriter(_NumberedRowsWriter):
    """Writes labelled texts; complete once the `with` block ends.

    Args:
        folder: Where; it must exist.
        vocab_size: Pieces of the vocabulary.
        labels: Every label there is.
    """

    def __init__(self, folder: Path, vocab_size: int, labels: Sequence[str]) -> None:
        super().__init__(folder, vocab_size)
        self._labels = list(labels)
        # Eight bytes a text.
        self._numbers: list[Indices] = [np.zeros(0, _NUMBER)]

    def __enter__(self) -> "LabelledStoreWriter":
        self._store.__enter__()
        return self

    def append(self, rows: Ragged, numbers: Indices, *, corpus: int) -> None:
        """Adds texts behind those written so far.

        Args:
            rows: Their tokens.
            numbers: The number of each one's label, [rows].
            corpus: Index in the recipe's list of the corpus that they come from.

        Raises:
            ValueError: Not one label for each text.
        """
        self._append(rows, numbers, corpus, "{} labels for {} texts")
        self._numbers.append(numbers.astype(_NUMBER))

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._store.__exit__(kind, *rest)
        if kind is not None:
            return
        np.save(self._folder / _NUMBERS_FILE, np.concatenate(self._numbers))
        text = json.dumps(self._labels, ensure_ascii=False)
        write_atomically(self._folder / _NAMES_FILE, text + "\n")
        build_order(self._folder)


def _damaged(path: Path, reason: str) -> MtkitError:
    return MtkitError(f"{path}: damaged: {reason}", "run `mtkit prepare` again")
