"""Sentences of unequal length to tensors: padded, in padded grids, or packed in one row."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mtkit.data.batches.ragged import Indices, Ragged, join_ranges
from mtkit.text.token_ids import BOS, PAD


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as tensors, padded at the end.

    Attributes:
        source_tokens: int64 [batch, src_len], closed by `</s>`.
        source_is_token: bool [batch, src_len], False at padding.
        target_inputs: int64 [batch, tgt_len]: `<s>` and the target.
        target_outputs: int64 [batch, tgt_len]: the target and `</s>`, what each input predicts.
        target_is_token: bool [batch, tgt_len], False at padding.
    """

    source_tokens: Tensor
    source_is_token: Tensor
    target_inputs: Tensor
    target_outputs: Tensor
    target_is_token: Tensor

    def to(self, device: torch.device) -> "Batch":
        """Returns the batch on a device; the copy may still be under way on a GPU's stream."""
        return Batch(
            source_tokens=_send(self.source_tokens, device),
            source_is_token=_send(self.source_is_token, device),
            target_inputs=_send(self.target_inputs, device),
            target_outputs=_send(self.target_outputs, device),
            target_is_token=_send(self.target_is_token, device),
        )


@dataclass(frozen=True)
class PackedSide:
    """One side's sentences, side by side.

    Attributes:
        offsets: int32 [sentences + 1]: where each begins, and where the last one ends.
        places: int64 [tokens]: each token's place in its own sentence, from 0.
        longest: Tokens of the longest sentence.
    """

    offsets: Tensor
    places: Tensor
    longest: int

    def to(self, device: torch.device) -> "PackedSide":
        """Returns the side on a device; the copy may still be under way on a GPU's stream."""
        return PackedSide(_send(self.offsets, device), _send(self.places, device), self.longest)


@dataclass(frozen=True)
class GridSide:
    """One side's sentences, in padded grids one after the other in a row.

    Attributes:
        shapes: Sentences of each grid, and the length that they are padded to.
        is_token: bool [row]: False at padding.
        places: int64 [row]: each token's place in its own sentence, from 0.
        tokens_at: int64 [tokens]: where the row has a token.
        longest: Length of the longest grid.
    """

    shapes: tuple[tuple[int, int], ...]
    is_token: Tensor
    places: Tensor
    tokens_at: Tensor
    longest: int

    def to(self, device: torch.device) -> "GridSide":
        """Returns the side on a device; the copy may still be under way on a GPU's stream."""
        return GridSide(
            self.shapes,
            _send(self.is_token, device),
            _send(self.places, device),
            _send(self.tokens_at, device),
            self.longest,
        )


@dataclass(frozen=True)
class RowBatch:
    """Sentence pairs with all sentences of a side in one row: packed without padding, or in grids.

    Attributes:
        source_tokens: int64 [1, src_row], each sentence closed by `</s>`.
        source: Where the source's sentences stand.
        target_inputs: int64 [1, tgt_row]: of each sentence, `<s>` and the target.
        target_outputs: int64 [tgt_tokens]: the targets, each closed by `</s>`, without padding.
        target: Where the target's sentences stand, in the same way as the source's.
    """

    source_tokens: Tensor
    source: PackedSide | GridSide
    target_inputs: Tensor
    target_outputs: Tensor
    target: PackedSide | GridSide

    def to(self, device: torch.device) -> "RowBatch":
        """Returns the batch on a device; the copy may still be under way on a GPU's stream."""
        return RowBatch(
            source_tokens=_send(self.source_tokens, device),
            source=self.source.to(device),
            target_inputs=_send(self.target_inputs, device),
            target_outputs=_send(self.target_outputs, device),
            target=self.target.to(device),
        )


def lay_out(
    source: Ragged, target: Ragged, grid_sizes: Sequence[int], *, row_step: int = 1
) -> RowBatch:
    """Returns sentence pairs, each side closed by `</s>`, as one batch of grids.

    Args:
        source: The sources, grid after grid.
        target: Their targets.
        grid_sizes: Sentences of each grid.
        row_step: What a row's length is a multiple of.
    """
    source_side, target_side = (_place(side, grid_sizes, row_step) for side in (source, target))
    return RowBatch(
        _spread(source.tokens, source_side),
        source_side,
        _spread(_shift(target), target_side),
        torch.from_numpy(target.tokens),
        target_side,
    )


def _place(side: Ragged, grid_sizes: Sequence[int], row_step: int) -> GridSide:
    sizes = np.asarray(grid_sizes)
    lengths = np.maximum.reduceat(side.lengths, np.cumsum(sizes) - sizes)
    widths = np.repeat(lengths, sizes)
    num_slots = int(widths.sum())
    tokens_at = join_ranges(np.cumsum(widths) - widths, side.lengths)
    is_token = np.zeros(-(-num_slots // row_step) * row_step, dtype=np.bool_)
    is_token[tokens_at] = True
    places = np.zeros(len(is_token), dtype=np.int64)
    places[tokens_at] = join_ranges(np.zeros_like(side.lengths), side.lengths)
    return GridSide(
        tuple(zip(sizes.tolist(), lengths.tolist(), strict=True)),
        torch.from_numpy(is_token),
        torch.from_numpy(places),
        torch.from_numpy(tokens_at),
        int(lengths.max()),
    )


def _spread(tokens: Indices, side: GridSide) -> Tensor:
    """Returns a row with the tokens in their places."""
    row = torch.full((1, len(side.places)), PAD)
    row[0, side.tokens_at] = torch.from_numpy(tokens)
    return row


def pack(source: Ragged, target: Ragged) -> RowBatch:
    """Returns sentence pairs, each side closed by `</s>`, as one packed batch."""
    return RowBatch(
        torch.from_numpy(source.tokens)[None],
        _locate(source),
        torch.from_numpy(_shift(target))[None],
        torch.from_numpy(target.tokens),
        _locate(target),
    )


def _shift(target: Ragged) -> Indices:
    """Returns the targets with `<s>` before each, and without its `</s>`."""
    inputs = np.roll(target.tokens, 1)
    inputs[np.cumsum(target.lengths) - target.lengths] = BOS
    return inputs


def _locate(sentences: Ragged) -> PackedSide:
    ends = np.cumsum(sentences.lengths)
    places = join_ranges(np.zeros_like(sentences.lengths), sentences.lengths)
    return PackedSide(
        torch.from_numpy(np.append(0, ends).astype(np.int32)),
        torch.from_numpy(places),
        int(sentences.lengths.max()),
    )


def collate(source: Ragged, target: Ragged) -> Batch:
    """Returns sentence pairs, each side closed by `</s>`, as one batch."""
    source_tokens, source_is_token = pad(source)
    target_outputs, target_is_token = pad(target)
    target_inputs = np.full_like(target_outputs, PAD)
    target_inputs[:, 0] = BOS
    target_inputs[:, 1:] = np.where(target_is_token[:, 1:], target_outputs[:, :-1], PAD)
    return Batch(
        torch.from_numpy(source_tokens),
        torch.from_numpy(source_is_token),
        torch.from_numpy(target_inputs),
        torch.from_numpy(target_outputs),
        torch.from_numpy(target_is_token),
    )


def pad(sentences: Ragged) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Returns [batch, longest] tokens and which of them are real."""
    is_token = np.arange(sentences.lengths.max()) < sentences.lengths[:, None]
    tokens = np.full(is_token.shape, PAD, dtype=np.int64)
    tokens[is_token] = sentences.tokens
    return tokens, is_token


def _send(tensor: Tensor, device: torch.device) -> Tensor:
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)
