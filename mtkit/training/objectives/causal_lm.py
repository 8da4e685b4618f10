"""A causal language model's objective: each token of a text, given those before it (GPT)."""

import numpy as np

from mtkit.data.batches.collate import TextBatch, collate_text
from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.text.token_ids import UNK
from mtkit.training.objectives.stored import StoredBatches


class CausalBatches(StoredBatches[TextBatch]):
    """Blocks of text in updates that several processes share.

    Every token of a block is predicted, `</s>` too; the first one from `<s>` alone.
    """

    def split(self, examples: Indices, num_processes: int, limit: int) -> list[list[MicroBatch]]:
        """Returns each process's micro-batches of one update, within the limit of a pass."""
        lengths = self.lengths(examples)["text"]
        return self._passes.split_side(examples, lengths, num_processes=num_processes, limit=limit)

    def count_target_tokens(self, examples: Indices, epoch: int) -> int:
        """Returns the tokens of these blocks, `</s>` counted."""
        return int(self.lengths(examples)["text"].sum())

    def gather(self, micro_batch: MicroBatch, epoch: int) -> TextBatch:
        """Returns a micro-batch on the device."""
        text = self._data.train.gather(micro_batch.sentences)["text"]
        return self._collate(text, micro_batch.grid_sizes, micro_batch.row_step)

    def largest(self, limit: int) -> TextBatch:
        """Returns a made-up batch: as many of the longest blocks as the limit of a pass lets."""
        longest = int(self._data.train_order.strata["text_length"].max())
        count = max(1, limit // longest)
        text = Ragged(np.full(count * longest, UNK), np.full(count, longest))
        return self._collate(text, (), self._passes.row_step)

    def _collate(self, text: Ragged, grid_sizes: tuple[int, ...], row_step: int) -> TextBatch:
        layout = self._passes.lay_out(text.lengths, grid_sizes, row_step)
        return collate_text(text, layout).to(self._device)
