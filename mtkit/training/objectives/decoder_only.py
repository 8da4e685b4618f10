"""A decoder-only translator's objective: the target, behind its source in one text."""

from collections.abc import Mapping

from mtkit.data.batches.collate import JoinedBatch, collate_joined
from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.training.objectives.translation import PairBatches


class JoinedBatches(PairBatches[JoinedBatch]):
    """Sentence pairs as texts, in the updates that an encoder-decoder would make of them.

    The limit of a pass bounds the tokens of a side, so that a text has room for both.
    """

    def _split(
        self,
        examples: Indices,
        source_lengths: Indices,
        target_lengths: Indices,
        *,
        num_processes: int,
        limit: int,
    ) -> list[list[MicroBatch]]:
        return self._passes.split_side(
            examples,
            source_lengths + target_lengths,
            num_processes=num_processes,
            limit=2 * limit,
        )

    def _collate(
        self, tokens: Mapping[str, Ragged], grid_sizes: tuple[int, ...], row_step: int
    ) -> JoinedBatch:
        source, target = tokens["source"], tokens["target"]
        lengths = source.lengths + target.lengths
        layout = self._passes.lay_out(lengths, grid_sizes, row_step)
        return collate_joined(source, target, layout).to(self._device)
