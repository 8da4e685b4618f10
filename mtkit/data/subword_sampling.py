"""Another segmentation of each training sentence in each epoch.

Subword regularisation (arXiv 1804.10959) and BPE-dropout (arXiv 1910.13267), sampled while training
reads: a pure function of the recipe's seed, the epoch and the sentence, whatever process asks.
"""

from random import Random

import numpy as np

from mtkit.data.batches.permutation import derive_keys_of
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.batches.token_store import TokenStore
from mtkit.recipe.tokenizer import Sampling
from mtkit.text.tokenizer import SubwordTokenizer

_SAMPLING_STREAM = 4
"""Parts these draws from those of the batches (mtkit/data/batches/epoch.py), which have 0 to 3."""
_SOURCE, _TARGET = 0, 1


class SegmentationSampler:
    """Reads sentence pairs with sampled segmentations.

    Args:
        store: The pairs.
        tokenizer: What cut them.
        sampling: How to sample.
        max_tokens: Greatest length of either side, `</s>` counted.
        seed: The recipe's seed.
    """

    def __init__(
        self,
        store: TokenStore,
        tokenizer: SubwordTokenizer,
        sampling: Sampling,
        *,
        max_tokens: int,
        seed: int,
    ) -> None:
        self._store = store
        self._resegmenters = (
            tokenizer.source_resegmenter(sampling.alpha),
            tokenizer.target_resegmenter(sampling.alpha),
        )
        self._random = Random()
        self._max_growth = sampling.max_growth
        self._max_tokens = max_tokens
        self._seed = seed
        self._counted_epoch = -1
        self._targets: dict[int, list[int]] = {}

    def bound(self, lengths: Indices) -> Indices:
        """Returns how long a segmentation may be, by the length of the best one."""
        grown = np.floor(lengths * self._max_growth).astype(np.int64)
        bounds: Indices = np.maximum(lengths, np.minimum(grown, self._max_tokens))
        return bounds

    def count_target_tokens(self, rows: Indices, epoch: int) -> int:
        """Returns how many target tokens the sentences have in an epoch, `</s>` counted."""
        _, target = self._store.gather(rows)
        sentences = self._draw(rows, epoch, _TARGET, target)
        # They are read next; whoever counts an update needn't draw it twice.
        self._counted_epoch = epoch
        self._targets = dict(zip(rows.tolist(), sentences, strict=True))
        return sum(map(len, sentences))

    def gather(self, rows: Indices, epoch: int) -> tuple[Ragged, Ragged]:
        """Returns the sources and the targets of some rows as they are in an epoch."""
        source, target = self._store.gather(rows)
        if self._counted_epoch == epoch and all(row in self._targets for row in rows.tolist()):
            targets = [self._targets[row] for row in rows.tolist()]
        else:
            targets = self._draw(rows, epoch, _TARGET, target)
        return Ragged.of(self._draw(rows, epoch, _SOURCE, source)), Ragged.of(targets)

    def _draw(self, rows: Indices, epoch: int, side: int, best: Ragged) -> list[list[int]]:
        keys = derive_keys_of(rows, _SAMPLING_STREAM, self._seed, epoch, side).tolist()
        bounds = self.bound(best.lengths).tolist()
        resegment, random = self._resegmenters[side], self._random
        sentences = []
        for sentence, key, bound in zip(best.to_lists(), keys, bounds, strict=True):
            random.seed(key)
            drawn = resegment(sentence, random)
            sentences.append(drawn if len(drawn) <= bound else sentence)
        return sentences
