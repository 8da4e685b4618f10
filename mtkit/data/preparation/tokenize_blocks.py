"""Makes blocks of tokens from lines in one language: tokenises lines, and cuts documents."""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.data.batches.numbered_texts import NumberedTextsWriter
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.preparation.cut_blocks import (
    BlockCutter,
    Blocks,
    cut_anywhere,
    cut_between_sentences,
    join_blocks,
)
from mtkit.data.preparation.stage import Preparation
from mtkit.data.preparation.text_store import DOCUMENT_COLUMN, TextPart, TextStore
from mtkit.data.preparation.tokenized import ColumnCounts, TokenizedPart, count_unknown
from mtkit.data.prepared import SHORT_BLOCKS
from mtkit.recipe import Recipe
from mtkit.recipe.objective import Objective
from mtkit.text.tokenizer import SubwordTokenizer

_EXTRA: dict[Objective, int] = {"masked-lm": 2, "denoising": 1}
"""Additional tokens of a block: for a masked language model `<s>`, and the `</s>` between two
segments; for a denoising model the `</s>` of a cut sentence."""


@dataclass(frozen=True)
class BlockShape:
    """How a recipe's documents become blocks.

    Attributes:
        block_tokens: Maximum length of a block, including what the objective adds.
        short_tokens: The same for blocks of the first updates; None if there are none.
    """

    objective: Objective
    block_tokens: int
    short_tokens: int | None

    @classmethod
    def of(cls, recipe: Recipe) -> "BlockShape":
        """Returns the shape of a recipe's blocks."""
        short_tokens = recipe.training.masked.short_tokens
        return cls(recipe.objective, recipe.data.block_tokens, short_tokens)

    def list_bounds(self) -> list[int]:
        """Returns the maximum length of a block, and that of a short one if any."""
        extra = _EXTRA.get(self.objective, 0)
        return [each - extra for each in (self.block_tokens, self.short_tokens) if each is not None]

    def cutter(self, max_tokens: int) -> BlockCutter:
        """Returns a new cutter into blocks of `max_tokens`."""
        keeps_sentences = self.objective in _EXTRA
        return BlockCutter(cut_between_sentences if keeps_sentences else cut_anywhere, max_tokens)


class LineTokenizer:
    """Tokenises parts of the text store in a folder; created once per process."""

    def __init__(self, text: Path, tokenizer: Path) -> None:
        self._text = TextStore(text)
        self._tokenizer = SubwordTokenizer.load(tokenizer)

    def __call__(self, part: TextPart) -> TokenizedPart:
        """Returns the tokens of a part."""
        unique = self._text.read_unique(part)
        lines: list[str] = unique.column("text").to_pylist()
        sentences = Ragged.of(self._tokenizer.tokenize("source", lines))
        counts = ColumnCounts(
            # The lengths of blocks, which only the store knows.
            lengths=np.zeros(0, np.int64),
            pieces=np.bincount(sentences.tokens, minlength=self._tokenizer.source_vocab_size),
            unknown=count_unknown(self._tokenizer, "source", sentences, lines),
        )
        documents = unique.column(DOCUMENT_COLUMN).to_numpy()
        return TokenizedPart(part.corpus, (sentences, documents), {"text": counts}, len(lines))


def build_line_tokenizer(preparation: Preparation) -> Callable[[], LineTokenizer]:
    """Returns a picklable factory of a tokenizer for a recipe's lines."""
    return partial(LineTokenizer, preparation.text, preparation.tokenizer)


class _BlockStore:
    """Cuts documents into blocks and writes them."""

    def __init__(self, folder: Path, shape: BlockShape, max_tokens: int, num_pieces: int) -> None:
        self._cutter = shape.cutter(max_tokens)
        self._writer = NumberedTextsWriter(folder, num_pieces)
        self._corpus = 0
        self.lengths = np.zeros(max_tokens + 1, np.int64)
        self.num_blocks: Counter[int] = Counter()
        self.num_documents: Counter[int] = Counter()

    def __enter__(self) -> "_BlockStore":
        self._writer.__enter__()
        return self

    def add(self, part: TokenizedPart) -> None:
        """Adds the next part of the text store."""
        if part.corpus != self._corpus:
            self._close_document()
            self._corpus = part.corpus
        self._append(lambda: self._cutter.add(*part.content))

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self._close_document()
        self._writer.__exit__(kind, *rest)

    def _close_document(self) -> None:
        self._append(self._cutter.close)

    def _append(self, cut: Callable[[], Blocks]) -> None:
        num_before = self._cutter.num_documents
        blocks = cut()
        self.num_documents[self._corpus] += self._cutter.num_documents - num_before
        self.num_blocks[self._corpus] += len(blocks)
        self.lengths += np.bincount(blocks.tokens.lengths, minlength=len(self.lengths))
        self._writer.append(blocks.tokens, blocks.documents, corpus=self._corpus)


class BlockStores:
    """Cuts documents into blocks and writes them, short ones into a subfolder.

    Blocks don't depend on where parts begin.
    """

    def __init__(self, folder: Path, shape: BlockShape, tokenizer: SubwordTokenizer) -> None:
        folders, num_pieces = (folder, folder / SHORT_BLOCKS), tokenizer.source_vocab_size
        self._stores = []
        for each, max_tokens in zip(folders, shape.list_bounds(), strict=False):
            each.mkdir(exist_ok=True)
            self._stores.append(_BlockStore(each, shape, max_tokens, num_pieces))
        self._stack = ExitStack()

    def __enter__(self) -> "BlockStores":
        for store in self._stores:
            self._stack.enter_context(store)
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        self._stack.__exit__(kind, *rest)

    def add(self, part: TokenizedPart) -> None:
        """Adds the next part."""
        for store in self._stores:
            store.add(part)

    def measure_lengths(self) -> NDArray[np.int64]:
        """Returns the number of blocks by their number of tokens."""
        return self._stores[0].lengths

    def describe(self, corpus: int) -> dict[str, int]:
        """Returns the documents and blocks of a corpus."""
        store = self._stores[0]
        return {"documents": store.num_documents[corpus], "blocks": store.num_blocks[corpus]}


def cut_whole(shape: BlockShape, sentences: Ragged, documents: Indices) -> tuple[Blocks, int]:
    """Returns the blocks of whole documents, and the number of documents."""
    cutter = shape.cutter(shape.list_bounds()[0])
    blocks = join_blocks([cutter.add(sentences, documents), cutter.close()])
    return blocks, cutter.num_documents
