"""Cleaned text in one language to blocks of tokens: tokenised in several processes, cut in one."""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.batches.text_blocks import TextBlocksWriter
from mtkit.data.preparation.cut_blocks import (
    BlockCutter,
    Blocks,
    cut_anywhere,
    cut_between_sentences,
    join_blocks,
)
from mtkit.data.preparation.facts import TokenizedCorpus, TrainFacts
from mtkit.data.preparation.run_stage import show_progress
from mtkit.data.preparation.stage import Preparation, Stage, has_blocks
from mtkit.data.preparation.text_store import DOCUMENT_COLUMN, TextPart, TextStore
from mtkit.data.preparation.token_counts import ColumnCounts, count_unknown, describe_column
from mtkit.data.prepared import SHORT_BLOCKS
from mtkit.digests import digest_file
from mtkit.executor import LocalExecutor
from mtkit.recipe import Recipe
from mtkit.recipe.objective import Objective
from mtkit.text.tokenizer import SubwordTokenizer

_EXTRA: dict[Objective, int] = {"masked-lm": 2, "denoising": 1}
"""Tokens that a block gets besides: a masked language model's `<s>` before it, and the `</s>` that
parts its two segments; the `</s>` that closes a sentence which was cut, for a denoising model."""


@dataclass(frozen=True)
class BlockShape:
    """How a recipe's documents become blocks.

    Attributes:
        objective: What reads the blocks.
        block_tokens: The recipe's bound of a block, with what the objective adds.
        short_tokens: The same of the blocks of the first updates; None where there are none.
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
        """Returns the greatest length of a block, and that of a short one if there are any."""
        extra = _EXTRA.get(self.objective, 0)
        return [each - extra for each in (self.block_tokens, self.short_tokens) if each is not None]

    def cutter(self, max_tokens: int) -> BlockCutter:
        """Returns a new cutter into blocks of so many tokens."""
        keeps_sentences = self.objective in _EXTRA
        return BlockCutter(cut_between_sentences if keeps_sentences else cut_anywhere, max_tokens)


@dataclass(frozen=True)
class TokenizedLines:
    """The tokens of a part of a text store.

    Attributes:
        corpus: Which entry of `data.train` it is of.
        sentences: Tokens of each line, closed by `</s>`.
        documents: The number of each one's document.
        pieces: How often each piece stands there.
        unknown: Characters that the vocabulary lacks, with how often they stand there.
    """

    corpus: int
    sentences: Ragged
    documents: Indices
    pieces: NDArray[np.int64]
    unknown: Counter[str]


class LineTokenizer:
    """Tokenises parts of a text store; made once in each process.

    Args:
        text: Folder of the store.
        tokenizer: Folder of the tokenizer.
    """

    def __init__(self, text: Path, tokenizer: Path) -> None:
        self._text = TextStore(text)
        self._tokenizer = SubwordTokenizer.load(tokenizer)

    def __call__(self, part: TextPart) -> TokenizedLines:
        """Returns the tokens of a part."""
        unique = self._text.read_part(part.number).filter(pa.array(part.is_unique))
        lines: list[str] = unique.column("text").to_pylist()
        sentences = Ragged.of(self._tokenizer.tokenize("source", lines))
        num_pieces = self._tokenizer.source_vocab_size
        return TokenizedLines(
            corpus=part.corpus,
            sentences=sentences,
            documents=unique.column(DOCUMENT_COLUMN).to_numpy(),
            pieces=np.bincount(sentences.tokens, minlength=num_pieces),
            unknown=count_unknown(self._tokenizer, "source", sentences, lines),
        )


class _BlockStore:
    """Cuts documents into blocks, and writes these."""

    def __init__(self, folder: Path, shape: BlockShape, max_tokens: int, num_pieces: int) -> None:
        self._cutter = shape.cutter(max_tokens)
        self._writer = TextBlocksWriter(folder, num_pieces)
        self._corpus = 0
        self.lengths = np.zeros(max_tokens + 1, np.int64)
        self.num_blocks: Counter[int] = Counter()
        self.num_documents: Counter[int] = Counter()

    def __enter__(self) -> "_BlockStore":
        self._writer.__enter__()
        return self

    def add(self, part: TokenizedLines) -> None:
        """Takes in the next part of the text store."""
        if part.corpus != self._corpus:
            self._close_document()
            self._corpus = part.corpus
        self._append(lambda: self._cutter.add(part.sentences, part.documents))

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


def tokenize_blocks(preparation: Preparation, folder: Path) -> TrainFacts:
    """Writes the blocks of the cleaned text, in order of length too; returns what they look like.

    Blocks are the same whatever the number of workers, and wherever parts begin. Short ones go into
    a folder of their own inside.
    """
    shape, text = BlockShape.of(preparation.recipe), preparation.text
    num_pieces = SubwordTokenizer.load(preparation.tokenizer).source_vocab_size
    num_lines: Counter[int] = Counter()
    pieces, unknown = np.zeros(num_pieces, np.int64), Counter[str]()
    tokenized = LocalExecutor(preparation.num_workers).run(
        partial(LineTokenizer, text, preparation.tokenizer), preparation.list_parts()
    )
    with ExitStack() as stack:
        stores = []
        for each, max_tokens in zip(
            (folder, folder / SHORT_BLOCKS), shape.list_bounds(), strict=False
        ):
            each.mkdir(exist_ok=True)
            stores.append(stack.enter_context(_BlockStore(each, shape, max_tokens, num_pieces)))
        counted = ((len(part.sentences), part) for part in tokenized)
        for part in show_progress(counted, "tokenising", "line"):
            for store in stores:
                store.add(part)
            num_lines[part.corpus] += len(part.sentences)
            pieces += part.pieces
            unknown += part.unknown
    corpora: list[TokenizedCorpus] = [
        {
            "kept": num_lines[corpus],
            "too_long": 0,
            "samples": [],
            "documents": stores[0].num_documents[corpus],
            "blocks": stores[0].num_blocks[corpus],
        }
        for corpus in range(len(preparation.data.train))
    ]
    counts = ColumnCounts(stores[0].lengths, pieces, unknown, best_tokens=0, sampled_tokens=0)
    return {
        "corpora": corpora,
        "text": describe_column(counts, num_pieces),
        "digest": [digest_file(path) for path in sorted(folder.rglob("*")) if path.is_file()],
    }


def cut_whole(shape: BlockShape, sentences: Ragged, documents: Indices) -> tuple[Blocks, int]:
    """Returns the blocks of some documents, and how many documents there are.

    Args:
        shape: How documents are cut.
        sentences: Tokens of all sentences.
        documents: The number of each one's document, rising.
    """
    cutter = shape.cutter(shape.list_bounds()[0])
    blocks = join_blocks([cutter.add(sentences, documents), cutter.close()])
    return blocks, cutter.num_documents


def list_block_inputs(preparation: Preparation) -> list[Any]:
    """Returns all that the rows of text in one language depend on."""
    return [
        preparation.describe_text(),
        preparation.parts,
        preparation.found["tokenizer"]["digest"],
        list(astuple(BlockShape.of(preparation.recipe))),
    ]


BLOCK_TOKENS = Stage("train", tokenize_blocks, list_block_inputs, has_blocks)
