"""How updates are cut into passes that a device is quick at, whatever is learned."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from mtkit.data.batches.collate import lay_out_side, pack_side
from mtkit.data.batches.filling import Filling
from mtkit.data.batches.micro_batches import MicroBatch, split_packed_update, split_update
from mtkit.data.batches.ragged import Indices
from mtkit.network import GridLayout, PackedLayout, can_pack
from mtkit.recipe.model import Model

_GRID_COST = 8_192
"""The cost of a grid beside its tokens, in tokens that it might hold, times d_model."""
_GRID_COST_WITH_KERNELS = 32_768
"""The same on a processor in bfloat16, where oneDNN makes a kernel for each shape. Rows that are
multiples of as many tokens have few different lengths, and want few kernels (docs/log.md)."""


def can_pack_passes(model: Model, device: torch.device, dtype: torch.dtype) -> bool:
    """Checks that a device can train on packed batches: one pass without padding.

    Its kernel drops no attention weights.
    """
    return model.attention_dropout == 0.0 and can_pack(
        device, dtype, d_key=model.d_key, d_value=model.d_value
    )


@dataclass(frozen=True)
class Passes:
    """The form of passes: packed, or in grids; all processes must have the same.

    Attributes:
        packs: Whether they are packed: one row without padding.
        grid_slots: The cost of a grid beside its tokens, in tokens that it might hold.
        row_step: Rows of grids are filled up to a multiple of it, at most.
        filling: What packed batches are filled up to; None where they have no padding.
    """

    packs: bool
    grid_slots: int
    row_step: int
    filling: Filling | None = None

    @classmethod
    def of(cls, d_model: int, device: torch.device, *, dtype: torch.dtype, packs: bool) -> "Passes":
        """Returns the form for a model's width, on a device, computed in `dtype`."""
        if device.type == "cpu" and dtype == torch.bfloat16:
            slots = max(_GRID_COST_WITH_KERNELS // d_model, 1)
            return cls(packs, slots, slots)
        return cls(packs, max(_GRID_COST // d_model, 1), 1)

    def split(
        self,
        examples: Indices,
        source_lengths: Indices,
        target_lengths: Indices,
        *,
        num_processes: int,
        limit: int,
    ) -> list[list[MicroBatch]]:
        """Returns each process's micro-batches of one update, within the limit of a pass.

        Args:
            examples: The update.
            source_lengths: Tokens of each one's source; 0 for text without one.
            target_lengths: Tokens of each one's target.
            num_processes: How many processes share the update.
            limit: Bound of one pass, in tokens a side.
        """
        lengths = source_lengths, target_lengths
        if self.packs:
            return split_packed_update(
                examples,
                *lengths,
                micro_batch_tokens=limit,
                num_processes=num_processes,
                fill_row=int if self.filling is None else self.filling.fill_row,
            )
        return split_update(
            examples,
            *lengths,
            micro_batch_tokens=limit,
            num_processes=num_processes,
            grid_slots=self.grid_slots,
            row_step=self.row_step,
        )

    def lay_out(
        self, lengths: Indices, grid_sizes: Sequence[int], row_step: int
    ) -> GridLayout | PackedLayout:
        """Returns the layout of one side of a micro-batch.

        Args:
            lengths: Tokens of each sentence, grid after grid.
            grid_sizes: Sentences of each grid; where none is given, all make one grid.
            row_step: The micro-batch's.
        """
        if self.packs:
            return pack_side(lengths)
        return lay_out_side(lengths, grid_sizes or (len(lengths),), row_step=row_step)
