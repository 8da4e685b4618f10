"""Text in one language as blocks: rows of a token store, and the document that each is of.

A block is a stretch of one document's tokens. `documents.npy` beside the store's files holds a
number for each row; numbers rise from 0 on, and none is left out.
"""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from mtkit.data.batches.length_order import LengthOrder, build_order
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.batches.token_store import TokenStore, TokenStoreWriter, make_batch
from mtkit.errors import MtkitError
from mtkit.foreign_files import check_file

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


class TextBlocksWriter:
    """Writes blocks in constant memory; complete once the `with` block ends.

    Args:
        folder: Where; it must exist.
        vocab_size: Pieces of the vocabulary.
    """

    def __init__(self, folder: Path, vocab_size: int) -> None:
        self._folder = folder
        self._vocab_sizes = dict.fromkeys(TEXT_COLUMNS, vocab_size)
        self._store = TokenStoreWriter(folder, self._vocab_sizes)
        self._num_rows = 0

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
        if len(documents) != len(blocks):
            raise ValueError(f"{len(documents)} documents for {len(blocks)} blocks")
        if len(blocks):
            self._store.append(make_batch({"text": blocks}, self._vocab_sizes), corpus=corpus)
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
        raise MtkitError(f"{path}: damaged: {error}", "run `mtkit prepare` again") from error
    if (
        not isinstance(documents, np.ndarray)
        or documents.dtype != _NUMBER
        or documents.shape != (num_rows,)
    ):
        raise MtkitError(
            f"{path}: damaged: expected {num_rows:,} numbers", "run `mtkit prepare` again"
        )
    return documents
