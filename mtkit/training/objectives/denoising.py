"""The batches of a denoising objective: a text, given the same text with hidden spans (BART).

The network is a translator's, and so is the loss: `measure_translation` takes these batches.
"""

import numpy as np
import torch

from mtkit.data.batches.collate import TranslationBatch, lay_out, pack
from mtkit.data.batches.infilling import InfillingReader
from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.prepared import PreparedData
from mtkit.recipe import Recipe
from mtkit.recipe.training import Denoising
from mtkit.text.token_ids import UNK
from mtkit.training.distributed import Processes
from mtkit.training.objectives.stored import StoredBatches


class DenoisingBatches(StoredBatches[TranslationBatch]):
    """Blocks of text with hidden spans, and as they were, in updates that processes share."""

    def __init__(
        self,
        data: PreparedData,
        recipe: Recipe,
        processes: Processes,
        *,
        dtype: torch.dtype,
        packs: bool,
    ) -> None:
        super().__init__(data, recipe, processes, dtype=dtype, packs=packs)
        self._reader = InfillingReader(
            data.train,
            recipe.training.denoising or Denoising(),
            mask_token=data.tokenizer.mask_token,
            words=(recipe.seed,),
        )

    def split(self, examples: Indices, num_processes: int, limit: int) -> list[list[MicroBatch]]:
        """Returns each process's micro-batches of one update, within the limit of a pass.

        Each has room for the longest sources that may come of its blocks.
        """
        lengths = self._reader.bound(examples)
        return self._passes.split(
            examples, lengths, lengths, num_processes=num_processes, limit=limit
        )

    def count_target_tokens(self, examples: Indices, epoch: int) -> int:
        """Returns the tokens of these blocks' text, each closed by `</s>`."""
        return len(self._reader.read_targets(examples).tokens)

    def gather(self, micro_batch: MicroBatch, epoch: int) -> TranslationBatch:
        """Returns a micro-batch with an epoch's hidden spans, on the device."""
        sentences = micro_batch.sentences
        texts = self._reader.read(sentences, epoch)
        grid_sizes = micro_batch.grid_sizes or (len(sentences),)
        return self._collate(texts.source, texts.target, grid_sizes, micro_batch.row_step)

    def largest(self, limit: int) -> TranslationBatch:
        """Returns a made-up batch: as many of the longest texts as the limit of a pass lets."""
        longest = min(self.longest, int(self._data.train_order.strata["text_length"].max()) + 1)
        count = max(1, limit // longest)
        side = Ragged(np.full(count * longest, UNK), np.full(count, longest))
        return self._collate(side, side, (count,), self._passes.row_step)

    def _collate(
        self, source: Ragged, target: Ragged, grid_sizes: tuple[int, ...], row_step: int
    ) -> TranslationBatch:
        batch = (
            pack(source, target)
            if self._passes.packs
            else lay_out(source, target, grid_sizes, row_step=row_step)
        )
        return batch.to(self._device)
