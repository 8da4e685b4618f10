"""A causal language model's objective: each token of a text, given those before it (GPT)."""

from mtkit.data.batches.collate import TextBatch, collate_text
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.training.objectives.stored import LayOut, StoredBatches, make_up_side


class CausalBatches(StoredBatches[Ragged, TextBatch]):
    """Blocks of text.

    Every token of a block is predicted, `</s>` too; the first one from `<s>` alone.
    """

    def read(self, rows: Indices, epoch: int) -> Ragged:
        """Returns blocks."""
        return self._data.train.gather(rows)["text"]

    def collate(self, examples: Ragged, lay_out: LayOut) -> TextBatch:
        """Returns blocks as a batch."""
        return collate_text(examples, lay_out(examples.lengths))

    def make_up(self, count: int, length: int) -> Ragged:
        """Returns so many blocks of a length."""
        return make_up_side(count, length)
