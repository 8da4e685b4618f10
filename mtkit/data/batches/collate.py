"""Sentences of unequal length to tensors: in padded grids, packed in one row, or padded."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mtkit.data.batches.ragged import Indices, Ragged, join_ranges
from mtkit.network import GridLayout, Layout, PackedLayout
from mtkit.network.device import send
from mtkit.text.token_ids import BOS, PAD


@dataclass(frozen=True)
class TranslationBatch:
    """Sentence pairs as tensors, both sides laid out in the same way.

    Attributes:
        source_tokens: int64, of the source layout's shape: each sentence closed by `</s>`.
        source_layout: Where the sources stand.
        target_inputs: int64, of the target layout's shape: of each sentence, `<s>` and the target.
        target_layout: Where the targets stand.
        target_outputs: int64 [target tokens]: the targets, each closed by `</s>`, without padding:
            what each input predicts.
    """

    source_tokens: Tensor
    source_layout: Layout
    target_inputs: Tensor
    target_layout: Layout
    target_outputs: Tensor

    def to(self, device: torch.device) -> "TranslationBatch":
        """Returns the batch on a device; the copy may still be under way on a GPU's stream."""
        return TranslationBatch(
            source_tokens=send(self.source_tokens, device),
            source_layout=self.source_layout.to(device),
            target_inputs=send(self.target_inputs, device),
            target_layout=self.target_layout.to(device),
            target_outputs=send(self.target_outputs, device),
        )


def lay_out(
    source: Ragged, target: Ragged, grid_sizes: Sequence[int], *, row_step: int = 1
) -> TranslationBatch:
    """Returns sentence pairs, each side closed by `</s>`, as one batch of grids.

    Args:
        source: The sources, grid after grid.
        target: Their targets.
        grid_sizes: Sentences of each grid.
        row_step: A number that divides each row's length.
    """
    source_layout, target_layout = (
        _lay_out_side(side, grid_sizes, row_step) for side in (source, target)
    )
    return TranslationBatch(
        _spread(source.tokens, source_layout),
        source_layout,
        _spread(_shift(target), target_layout),
        target_layout,
        torch.from_numpy(target.tokens),
    )


def _lay_out_side(side: Ragged, grid_sizes: Sequence[int], row_step: int) -> GridLayout:
    sizes = np.asarray(grid_sizes)
    lengths = np.maximum.reduceat(side.lengths, np.cumsum(sizes) - sizes)
    widths = np.repeat(lengths, sizes)
    num_slots = int(widths.sum())
    token_indices = join_ranges(np.cumsum(widths) - widths, side.lengths)
    is_token = np.zeros((1, -(-num_slots // row_step) * row_step), dtype=np.bool_)
    is_token[0, token_indices] = True
    positions = np.zeros(is_token.shape, dtype=np.int64)
    positions[0, token_indices] = join_ranges(np.zeros_like(side.lengths), side.lengths)
    return GridLayout(
        tuple(zip(sizes.tolist(), lengths.tolist(), strict=True)),
        torch.from_numpy(is_token),
        torch.from_numpy(positions),
        torch.from_numpy(token_indices),
        int(lengths.max()),
    )


def _spread(tokens: Indices, layout: GridLayout) -> Tensor:
    """Returns a row with the tokens where the layout has them."""
    row = torch.full(layout.shape, PAD)
    row[0, layout.token_indices] = torch.from_numpy(tokens)
    return row


def pack(source: Ragged, target: Ragged) -> TranslationBatch:
    """Returns sentence pairs, each side closed by `</s>`, as one packed batch."""
    return TranslationBatch(
        torch.from_numpy(source.tokens)[None],
        _pack_side(source),
        torch.from_numpy(_shift(target))[None],
        _pack_side(target),
        torch.from_numpy(target.tokens),
    )


def _pack_side(side: Ragged) -> PackedLayout:
    positions = join_ranges(np.zeros_like(side.lengths), side.lengths)
    return PackedLayout(
        torch.from_numpy(np.append(0, np.cumsum(side.lengths)).astype(np.int32)),
        torch.from_numpy(positions)[None],
        int(side.lengths.max()),
    )


def _shift(target: Ragged) -> Indices:
    """Returns the targets with `<s>` before each, and without its `</s>`."""
    inputs = np.roll(target.tokens, 1)
    inputs[np.cumsum(target.lengths) - target.lengths] = BOS
    return inputs
