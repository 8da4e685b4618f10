"""A decoder-only translator's objective: the target, behind its source in one text."""

from collections.abc import Mapping, Sequence

from mtkit.data.batches.collate import JoinedBatch, collate_joined
from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.training.objectives.stored import LayOut
from mtkit.training.objectives.translation import PairBatches


class JoinedBatches(PairBatches[JoinedBatch]):
    """Sentence pairs as texts, in the updates that an encoder-decoder would make of them."""

    def bound(self, rows: Indices) -> Sequence[Indices]:
        """Returns the tokens of both sides together."""
        source, target = super().bound(rows)
        return [source + target]

    def split(self, examples: Indices, num_processes: int, limit: int) -> list[list[MicroBatch]]:
        """Returns micro-batches; their limit bounds the tokens of a side, a text has two."""
        return super().split(examples, num_processes, 2 * limit)

    def collate(self, examples: Mapping[str, Ragged], lay_out: LayOut) -> JoinedBatch:
        """Returns pairs as a batch of texts."""
        source, target = examples["source"], examples["target"]
        return collate_joined(source, target, lay_out(source.lengths + target.lengths))
