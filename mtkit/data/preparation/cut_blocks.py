"""Cuts documents into blocks for a language model.

Blocks depend on the documents alone, not on the parts in which their text comes: the rest of a
document at the end of a part waits for the next part.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mtkit.data.batches.ragged import Indices, Ragged

Cut = Callable[[Indices, int], Indices]
"""Takes the tokens of a document's sentences, and the maximum; returns the blocks' tokens."""


@dataclass(frozen=True)
class Blocks:
    """Blocks of documents, and the number of each block's document."""

    tokens: Ragged
    documents: Indices

    def __len__(self) -> int:
        return len(self.documents)


def cut_anywhere(lengths: Indices, max_tokens: int) -> Indices:
    """Returns the lengths of full blocks and the rest; `lengths` count `</s>`."""
    whole, rest = divmod(int(lengths.sum()), max_tokens)
    return np.array([max_tokens] * whole + [rest] * bool(rest), dtype=np.int64)


def cut_between_sentences(lengths: Indices, max_tokens: int) -> Indices:
    """Returns the lengths of blocks of whole sentences, as many as fit; `lengths` count `</s>`.

    A sentence longer than a block is cut into full blocks; its rest begins the next one.
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    sizes: list[int] = []
    start = 0
    while start < total:
        # The last sentence end within reach; none if a sentence is longer than a block.
        last = int(np.searchsorted(ends, start + max_tokens, side="right")) - 1
        end = int(ends[last]) if last >= 0 else 0
        if end <= start:
            end = start + max_tokens
        sizes.append(end - start)
        start = end
    return np.array(sizes, dtype=np.int64)


class BlockCutter:
    """Cuts documents into blocks as their sentences come, part by part; in constant memory.

    `cut` is for documents longer than a block. For a document's first sentences, it must return the
    same blocks as for the whole document, except for the last block. Blocks have the numbers of
    their documents; `num_documents` have ended.
    """

    def __init__(self, cut: Cut, max_tokens: int) -> None:
        self._cut, self._max_tokens = cut, max_tokens
        self._open = Ragged.of([])
        self._open_document = 0
        self.num_documents = 0

    def add(self, sentences: Ragged, documents: Indices) -> Blocks:
        """Returns the blocks that are complete now; a document may continue from the last part."""
        tokens = np.concatenate([self._open.tokens, sentences.tokens])
        lengths = np.concatenate([self._open.lengths, sentences.lengths])
        held = np.full(len(self._open), self._open_document)
        documents = np.concatenate([held, documents])
        if not len(documents):
            return _NO_BLOCKS
        heads = np.flatnonzero(np.append(True, np.diff(documents) != 0))
        sizes, counts = self._cut_all(lengths, heads)
        # The last document's last block may still grow.
        sizes, counts[-1] = sizes[:-1], counts[-1] - 1
        num_cut = int(sizes.sum())
        self._hold(tokens, lengths, num_cut)
        self._open_document = int(documents[-1])
        numbers = self.num_documents + np.repeat(np.arange(len(heads)), counts)
        self.num_documents += len(heads) - 1
        return Blocks(Ragged(tokens[:num_cut], sizes), numbers)

    def close(self) -> Blocks:
        """Returns the last block of the last document."""
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
        # Most documents of short texts are one block, and take no step of Python.
        for document in np.flatnonzero(totals > self._max_tokens).tolist():
            sizes.append(totals[done:document])
            sizes.append(self._cut(lengths[heads[document] : ends[document]], self._max_tokens))
            counts[document] = len(sizes[-1])
            done = document + 1
        return np.concatenate([*sizes, totals[done:]]), counts

    def _hold(self, tokens: Indices, lengths: Indices, num_cut: int) -> None:
        """Keeps what follows the first `num_cut` tokens; the cut may be inside a sentence."""
        ends = np.cumsum(lengths)
        first = int(np.searchsorted(ends, num_cut, side="right"))
        left = lengths[first:].copy()
        left[0] = ends[first] - num_cut
        self._open = Ragged(tokens[num_cut:].copy(), left)


def join_blocks(parts: Sequence[Blocks]) -> Blocks:
    """Returns consecutive blocks as one object."""
    return Blocks(
        Ragged(
            np.concatenate([part.tokens.tokens for part in parts]),
            np.concatenate([part.tokens.lengths for part in parts]),
        ),
        np.concatenate([part.documents for part in parts]),
    )


_NO_BLOCKS = Blocks(Ragged.of([]), np.zeros(0, np.int64))
