"""A document's sentences, one after the other, cut into blocks for a language model.

Where blocks begin depends on the documents alone, never on the parts in which their text comes:
what is left of a document at a part's end is held until the next.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mtkit.data.batches.ragged import Indices, Ragged

Cut = Callable[[Indices, int], Indices]
"""Takes the tokens of each of a document's sentences, and of a block; returns each block's."""


@dataclass(frozen=True)
class Blocks:
    """Blocks of documents.

    Attributes:
        tokens: Their tokens.
        documents: The number of each block's document, [blocks].
    """

    tokens: Ragged
    documents: Indices

    def __len__(self) -> int:
        return len(self.documents)


def cut_anywhere(lengths: Indices, max_tokens: int) -> Indices:
    """Returns the lengths of blocks that are full, but for the last.

    Args:
        lengths: Tokens of each of a document's sentences, `</s>` counted.
        max_tokens: Tokens of a block.
    """
    whole, rest = divmod(int(lengths.sum()), max_tokens)
    return np.array([max_tokens] * whole + [rest] * bool(rest), dtype=np.int64)


def cut_between_sentences(lengths: Indices, max_tokens: int) -> Indices:
    """Returns the lengths of blocks of whole sentences, each of as many as it has room for.

    A sentence that is longer than a block is cut into full blocks; what is left of it begins the
    next one.

    Args:
        lengths: Tokens of each of a document's sentences, `</s>` counted.
        max_tokens: Greatest length of a block.
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    sizes: list[int] = []
    start = 0
    while start < total:
        # The last sentence's end that a block from here on reaches; none if a sentence is longer.
        last = int(np.searchsorted(ends, start + max_tokens, side="right")) - 1
        end = int(ends[last]) if last >= 0 else 0
        if end <= start:
            end = start + max_tokens
        sizes.append(end - start)
        start = end
    return np.array(sizes, dtype=np.int64)


class BlockCutter:
    """Cuts documents into blocks as their sentences come, part by part; in constant memory.

    Args:
        cut: How a document is cut that is longer than a block. The blocks of its first sentences,
            but for the last block, must be those of the whole document.
        max_tokens: Tokens of a block.

    Attributes:
        num_documents: Documents that have ended; blocks have their documents' numbers from 0 on.
    """

    def __init__(self, cut: Cut, max_tokens: int) -> None:
        self._cut, self._max_tokens = cut, max_tokens
        self._open = Ragged.of([])
        self._open_document = 0
        self.num_documents = 0

    def add(self, sentences: Ragged, documents: Indices) -> Blocks:
        """Returns the blocks that are complete once the next sentences are known.

        Args:
            sentences: Tokens of each, none without any.
            documents: The number of each one's document, rising; the first may go on from the part
                before.
        """
        tokens = np.concatenate([self._open.tokens, sentences.tokens])
        lengths = np.concatenate([self._open.lengths, sentences.lengths])
        held = np.full(len(self._open), self._open_document)
        documents = np.concatenate([held, documents])
        if not len(documents):
            return _NO_BLOCKS
        heads = np.flatnonzero(np.append(True, np.diff(documents) != 0))
        sizes, counts = self._cut_all(lengths, heads)
        # The last one's last block may yet grow.
        sizes, counts[-1] = sizes[:-1], counts[-1] - 1
        num_cut = int(sizes.sum())
        self._hold(tokens, lengths, num_cut)
        self._open_document = int(documents[-1])
        numbers = self.num_documents + np.repeat(np.arange(len(heads)), counts)
        self.num_documents += len(heads) - 1
        return Blocks(Ragged(tokens[:num_cut], sizes), numbers)

    def close(self) -> Blocks:
        """Returns the last block of the last document, which has ended."""
        tokens, self._open = self._open.tokens, Ragged.of([])
        if not len(tokens):
            return _NO_BLOCKS
        number = self.num_documents
        self.num_documents += 1
        return Blocks(Ragged(tokens, np.array([len(tokens)])), np.array([number]))

    def _cut_all(self, lengths: Indices, heads: Indices) -> tuple[Indices, Indices]:
        """Returns the lengths of all documents' blocks, and how many blocks each document has."""
        totals = np.add.reduceat(lengths, heads)
        ends = np.append(heads[1:], len(lengths))
        counts = np.ones(len(heads), np.int64)
        sizes: list[Indices] = []
        done = 0
        # Most documents of short texts are one block, and cost no step of Python.
        for document in np.flatnonzero(totals > self._max_tokens).tolist():
            sizes.append(totals[done:document])
            sizes.append(self._cut(lengths[heads[document] : ends[document]], self._max_tokens))
            counts[document] = len(sizes[-1])
            done = document + 1
        return np.concatenate([*sizes, totals[done:]]), counts

    def _hold(self, tokens: Indices, lengths: Indices, num_cut: int) -> None:
        """Keeps what lies behind the first `num_cut` tokens; a sentence may have been cut there."""
        ends = np.cumsum(lengths)
        first = int(np.searchsorted(ends, num_cut, side="right"))
        left = lengths[first:].copy()
        left[0] = ends[first] - num_cut
        self._open = Ragged(tokens[num_cut:].copy(), left)


def join_blocks(parts: Sequence[Blocks]) -> Blocks:
    """Returns blocks that follow each other as one."""
    return Blocks(
        Ragged(
            np.concatenate([part.tokens.tokens for part in parts]),
            np.concatenate([part.tokens.lengths for part in parts]),
        ),
        np.concatenate([part.documents for part in parts]),
    )


_NO_BLOCKS = Blocks(Ragged.of([]), np.zeros(0, np.int64))
