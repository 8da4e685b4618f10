"""The batches of a denoising objective: a text, given the same text with hidden spans (BART).

The network is a translator's, and so is the loss: `measure_translation` takes these batches.
"""

from collections.abc import Sequence
from functools import cached_property

from mtkit.data.batches.collate import TranslationBatch, collate_pairs
from mtkit.data.batches.infilling import DenoisingTexts, InfillingReader
from mtkit.data.batches.ragged import Indices
from mtkit.recipe.training import Denoising
from mtkit.training.objectives.stored import LayOut, StoredBatches, make_up_side


class DenoisingBatches(StoredBatches[DenoisingTexts, TranslationBatch]):
    """Blocks of text with an epoch's hidden spans, and as they were."""

    @cached_property
    def _reader(self) -> InfillingReader:
        return InfillingReader(
            self._data.train,
            self._recipe.training.denoising or Denoising(),
            mask_token=self._data.tokenizer.mask_token,
            words=(self._recipe.seed,),
        )

    def bound(self, rows: Indices) -> Sequence[Indices]:
        """Returns the tokens of the longest sources that may come of blocks, and of targets."""
        lengths = self._reader.bound(rows)
        return [lengths, lengths]

    def bound_longest(self) -> int:
        """Returns the tokens of the longest text."""
        return min(self.longest, super().bound_longest() + 1)

    def count_target_tokens(self, examples: Indices, epoch: int) -> int:
        """Returns the tokens of these blocks' text, each closed by `</s>`."""
        return len(self._reader.read_targets(examples).tokens)

    def read(self, rows: Indices, epoch: int) -> DenoisingTexts:
        """Returns texts with hidden spans, and as they were."""
        return self._reader.read(rows, epoch)

    def collate(self, examples: DenoisingTexts, lay_out: LayOut) -> TranslationBatch:
        """Returns texts as a batch of a translator."""
        return collate_pairs(examples.source, examples.target, lay_out)

    def make_up(self, count: int, length: int) -> DenoisingTexts:
        """Returns so many texts of a length, on both sides."""
        return DenoisingTexts(*[make_up_side(count, length)] * 2)
