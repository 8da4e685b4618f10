"""Sentences of unequal length as tensors: in padded grids, packed in rows, or padded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mtkit.data.batches.masking import MaskedTokens
from mtkit.data.batches.ragged import Indices, Ragged, join_ranges
from mtkit.data.batches.rows import WIDTH_STEP, count_width
from mtkit.data.batches.segments import Segments
from mtkit.network import GridLayout, Layout, PackedLayout
from mtkit.network.device import Sendable
from mtkit.text.token_ids import BOS, PAD

RowLayout = GridLayout | PackedLayout
"""A layout used in training."""
LayOut = Callable[[Indices], RowLayout]
"""Returns the layout of one side of a micro-batch, given the tokens of each sentence."""


@dataclass(frozen=True)
class LinkedTokens(Sendable):
    """Aligned target and source tokens of a batch.

    Attributes:
        cells: int64 [links], each link's index in a head's attention weights, which are ordered by
            grid (`Layout.grid_shapes`), sentence, target position and source position.
        num_sources: int64 [links], how many source tokens the link's target token is aligned to.
    """

    cells: Tensor
    num_sources: Tensor


@dataclass(frozen=True)
class TranslationBatch(Sendable):
    """Sentence pairs as tensors, both sides in the same kind of layout.

    Attributes:
        source_tokens: int64, in the source layout's shape; each sentence ends with `</s>`.
        target_inputs: int64, in the target layout's shape; each sentence is `<s>` and the target.
        target_outputs: int64 [target tokens], without padding; each target ends with `</s>`.
        is_filled: Whether padding has outputs too, which the loss ignores (`fill`).
    """

    source_tokens: Tensor
    source_layout: Layout
    target_inputs: Tensor
    target_layout: Layout
    target_outputs: Tensor
    links: LinkedTokens | None = None
    is_filled: bool = False

    def fill(self, max_length: int) -> "TranslationBatch":
        """Returns a packed batch whose shapes depend on its rows alone.

        `max_length` is the length of the longest sentence of any batch, in tokens.
        """
        source_layout, target_layout = self.source_layout, self.target_layout
        assert isinstance(source_layout, PackedLayout), "filled batches are packed"
        assert isinstance(target_layout, PackedLayout), "filled batches are packed"
        outputs = spread_tokens(self.target_outputs.numpy(), target_layout).flatten()
        everywhere = torch.arange(len(outputs))
        return replace(
            self,
            source_layout=replace(source_layout, max_length=max_length),
            target_layout=replace(target_layout, max_length=max_length, token_indices=everywhere),
            target_outputs=outputs,
            is_filled=True,
        )

    def link(self, links: Ragged, *, first_row: int) -> "TranslationBatch":
        """Returns the batch with its aligned tokens; to be called before it is sent to a device.

        `links` alternate source and target index, ordered by target index. `first_row` is the first
        target token's position among the queries of attention.
        """
        sources, targets = links.tokens[::2], links.tokens[1::2]
        sentences = np.repeat(np.arange(len(links)), links.lengths // 2)
        # For each sentence: where its weights begin, and how many a target position has.
        shapes = np.array(
            [
                (count, length, memory_length)
                for (count, length), (_, memory_length) in zip(
                    self.target_layout.grid_shapes, self.source_layout.grid_shapes, strict=True
                )
            ]
        )
        lengths, widths = np.repeat(shapes[:, 1:], shapes[:, 0], axis=0).T
        if len(lengths) != len(links):
            raise ValueError(f"links of {len(links)} sentences for {len(lengths)}")
        rows = targets + first_row
        if (rows >= lengths[sentences]).any() or (sources >= widths[sentences]).any():
            raise ValueError("a link beyond its sentences")
        sizes = lengths * widths
        cells = (np.cumsum(sizes) - sizes)[sentences] + rows * widths[sentences] + sources
        _, owners, num_sources = np.unique(cells - sources, return_inverse=True, return_counts=True)
        linked = LinkedTokens(torch.from_numpy(cells), torch.from_numpy(num_sources[owners]))
        return replace(self, links=linked)


@dataclass(frozen=True)
class TextBatch(Sendable):
    """Text in one language as tensors, for a model that predicts the next token.

    Attributes:
        inputs: int64, in the layout's shape; each row is `<s>` and its tokens except the last.
        outputs: int64 [tokens], without padding.
    """

    inputs: Tensor
    layout: Layout
    outputs: Tensor


@dataclass(frozen=True)
class JoinedBatch(Sendable):
    """Sentence pairs as single texts, for a decoder-only model that learns the targets.

    Attributes:
        inputs: int64, in the layout's shape; `<s>`, source, `</s>` and target of each pair.
        indices: int64 [target tokens], the tokens that predict targets; padding isn't counted.
        outputs: int64 [target tokens], the targets; each ends with `</s>`.
    """

    inputs: Tensor
    layout: Layout
    indices: Tensor
    outputs: Tensor


@dataclass(frozen=True)
class MaskedBatch(Sendable):
    """Text in one language as tensors, for a model that predicts masked tokens.

    Attributes:
        inputs: int64, in the layout's shape; `<s>`, then one or two segments that end with `</s>`.
        segments: int64, in the same shape; 0 up to the first `</s>`, then 1.
        indices: int64 [predicted], the tokens that are predicted; padding isn't counted.
        outputs: int64 [predicted], the original tokens.
        is_random: int64 [texts], 1 where the second segment doesn't follow the first; None without
            second segments.
    """

    inputs: Tensor
    segments: Tensor
    layout: Layout
    indices: Tensor
    outputs: Tensor
    is_random: Tensor | None


def collate_pairs(source: Ragged, target: Ragged, lay_out: LayOut) -> TranslationBatch:
    """Returns sentence pairs, each side closed by `</s>`, as one batch."""
    source_layout, target_layout = lay_out(source.lengths), lay_out(target.lengths)
    return TranslationBatch(
        spread_tokens(source.tokens, source_layout),
        source_layout,
        spread_tokens(_shift(target), target_layout),
        target_layout,
        torch.from_numpy(target.tokens),
    )


def lay_out(
    source: Ragged, target: Ragged, grid_sizes: Sequence[int], *, row_step: int = 1
) -> TranslationBatch:
    """Returns sentence pairs, ordered by grid and closed by `</s>`, as grids (`lay_out_side`)."""
    form = partial(lay_out_side, grid_sizes=grid_sizes, row_step=row_step)
    return collate_pairs(source, target, form)


def collate_text(text: Ragged, layout: RowLayout) -> TextBatch:
    """Returns rows of text as one batch."""
    return TextBatch(spread_tokens(_shift(text), layout), layout, torch.from_numpy(text.tokens))


def join(source: Ragged, target: Ragged) -> Ragged:
    """Returns each source followed by its target."""
    lengths = source.lengths + target.lengths
    starts = np.cumsum(lengths) - lengths
    tokens = np.empty(lengths.sum(), dtype=np.int64)
    tokens[join_ranges(starts, source.lengths)] = source.tokens
    tokens[join_ranges(starts + source.lengths, target.lengths)] = target.tokens
    return Ragged(tokens, lengths)


def collate_joined(source: Ragged, target: Ragged, layout: RowLayout) -> JoinedBatch:
    """Returns pairs closed by `</s>` as one batch; `layout` is of both sides' summed lengths."""
    text = join(source, target)
    starts = np.cumsum(text.lengths) - text.lengths
    # Inputs are shifted by one: a token has the same index as the input that predicts it.
    indices = join_ranges(starts + source.lengths, target.lengths)
    return JoinedBatch(
        spread_tokens(_shift(text), layout),
        layout,
        torch.from_numpy(indices),
        torch.from_numpy(target.tokens),
    )


def collate_masked(segments: Segments, masked: MaskedTokens, layout: RowLayout) -> MaskedBatch:
    """Returns texts with masked tokens as one batch."""
    is_random = segments.is_random
    return MaskedBatch(
        spread_tokens(masked.inputs, layout),
        spread_tokens(segments.segments, layout, padding=0),
        layout,
        torch.from_numpy(masked.indices),
        torch.from_numpy(masked.outputs),
        None if is_random is None else torch.from_numpy(is_random.astype(np.int64)),
    )


def lay_out_side(lengths: Indices, grid_sizes: Sequence[int], *, row_step: int = 1) -> GridLayout:
    """Returns the layout of sentences ordered by grid; its row is a multiple of `row_step` long."""
    sizes = np.asarray(grid_sizes)
    grid_lengths = np.maximum.reduceat(lengths, np.cumsum(sizes) - sizes)
    widths = np.repeat(grid_lengths, sizes)
    num_slots = int(widths.sum())
    token_indices = join_ranges(np.cumsum(widths) - widths, lengths)
    is_token = np.zeros((1, -(-num_slots // row_step) * row_step), dtype=np.bool_)
    is_token[0, token_indices] = True
    positions = np.zeros(is_token.shape, dtype=np.int64)
    positions[0, token_indices] = join_ranges(np.zeros_like(lengths), lengths)
    return GridLayout(
        tuple(zip(sizes.tolist(), grid_lengths.tolist(), strict=True)),
        torch.from_numpy(is_token),
        torch.from_numpy(positions),
        torch.from_numpy(token_indices),
        int(grid_lengths.max()),
    )


def spread_tokens(tokens: Indices, layout: RowLayout, *, padding: int = PAD) -> Tensor:
    """Returns a layout's rows with the tokens of its sentences, and padding elsewhere."""
    rows = torch.full(layout.shape, padding)
    rows.view(-1)[layout.token_indices] = torch.from_numpy(tokens)
    return rows


def pack(
    source: Ragged, target: Ragged, row_sizes: Sequence[int] | None = None
) -> TranslationBatch:
    """Returns sentence pairs, each side closed by `</s>`, as one packed batch (`pack_side`)."""
    return collate_pairs(source, target, partial(pack_side, row_sizes=row_sizes))


def pack_side(
    lengths: Indices, row_sizes: Sequence[int] | None = None, *, width_step: int = WIDTH_STEP
) -> PackedLayout:
    """Returns the layout of packed sentences, in one row without `row_sizes`; rows may be empty."""
    sizes = np.array([len(lengths)] if row_sizes is None else row_sizes)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    filled = np.bincount(rows, lengths, minlength=len(sizes)).astype(np.int64)
    width = count_width(filled.max(), width_step)
    before = np.arange(len(sizes)) * width - (np.cumsum(filled) - filled)
    starts = np.cumsum(lengths) - lengths + before[rows]
    token_indices = join_ranges(starts, lengths)
    sentences = np.full(len(sizes) * width, -1)
    sentences[token_indices] = np.repeat(np.arange(len(lengths)), lengths)
    positions = np.zeros_like(sentences)
    positions[token_indices] = join_ranges(np.zeros_like(lengths), lengths)
    return PackedLayout(
        torch.from_numpy(sentences).view(len(sizes), width),
        torch.from_numpy(positions).view(len(sizes), width),
        torch.from_numpy(token_indices),
        torch.from_numpy(starts),
        int(lengths.max()),
        shares=int(sizes.max()) > 1,
    )


def _shift(target: Ragged) -> Indices:
    """Returns the targets with `<s>` in front and without the last token, usually `</s>`."""
    inputs = np.roll(target.tokens, 1)
    inputs[np.cumsum(target.lengths) - target.lengths] = BOS
    return inputs
