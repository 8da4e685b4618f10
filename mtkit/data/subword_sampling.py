"""Segments each training sentence differently in each epoch.

Subword regularisation (arXiv 1804.10959) and BPE-dropout (arXiv 1910.13267), sampled while training
reads: a pure function of the recipe's seed, the epoch and the sentence, in any process.
"""

from random import Random

import numpy as np

from mtkit.data.batches.permutation import derive_keys_of
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.batches.token_store import TokenStore
from mtkit.recipe.tokenizer import SubwordSampling
from mtkit.text.tokenizer import SubwordTokenizer

_SAMPLING_STREAM = 4
"""Keeps these draws apart from those of updates (mtkit/data/batches/updates.py), 0 to 3."""


class SegmentationSampler:
    """Reads the sentences of a store with sampled segmentations.

    The tokenizer has a vocabulary for each column; `max_tokens` limits a sentence, `</s>` counted.
    """

    def __init__(
        self,
        store: TokenStore,
        tokenizer: SubwordTokenizer,
        sampling: SubwordSampling,
        *,
        max_tokens: int,
        seed: int,
    ) -> None:
        self._store = store
        self._resegmenters = {
            column: tokenizer.resegmenter(column, sampling.alpha) for column in store.columns
        }
        self._random = Random()
        self._max_growth = sampling.max_growth
        self._max_tokens = max_tokens
        self._seed = seed
        self._counted = ("", -1)
        self._drawn: dict[int, list[int]] = {}

    def bound(self, lengths: Indices) -> Indices:
        """Returns the maximum length of a segmentation, given the length of the best one."""
        grown = np.floor(lengths * self._max_growth).astype(np.int64)
        bounds: Indices = np.maximum(lengths, np.minimum(grown, self._max_tokens))
        return bounds

    def count_tokens(self, rows: Indices, epoch: int, column: str) -> int:
        """Returns how many tokens a column's sentences have in an epoch, `</s>` counted."""
        best = self._store.gather(rows, [column])[column]
        sentences = self._draw(rows, epoch, column, best)
        # Cached, because these sentences are read next.
        self._counted = (column, epoch)
        self._drawn = dict(zip(rows.tolist(), sentences, strict=True))
        return sum(map(len, sentences))

    def gather(self, rows: Indices, epoch: int) -> dict[str, Ragged]:
        """Returns the rows' sentences by column, as they are in an epoch."""
        found = {}
        for column, best in self._store.gather(rows).items():
            if self._counted == (column, epoch) and all(
                row in self._drawn for row in rows.tolist()
            ):
                sentences = [self._drawn[row] for row in rows.tolist()]
            else:
                sentences = self._draw(rows, epoch, column, best)
            found[column] = Ragged.of(sentences)
        return found

    def _draw(self, rows: Indices, epoch: int, column: str, best: Ragged) -> list[list[int]]:
        number = self._store.columns.index(column)
        keys = derive_keys_of(rows, _SAMPLING_STREAM, self._seed, epoch, number).tolist()
        bounds = self.bound(best.lengths).tolist()
        resegment, random = self._resegmenters[column], self._random
        sentences = []
        for sentence, key, bound in zip(best.to_lists(), keys, bounds, strict=True):
            random.seed(key)
            drawn = resegment(sentence, random)
            sentences.append(drawn if len(drawn) <= bound else sentence)
        return sentences
