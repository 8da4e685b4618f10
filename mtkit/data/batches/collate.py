"""Sentences of unequal length to tensors: in padded grids, packed in rows, or padded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mtkit.data.batches.masking import HiddenTokens
from mtkit.data.batches.ragged import Indices, Ragged, join_ranges
from mtkit.data.batches.rows import WIDTH_STEP, count_width
from mtkit.data.batches.segments import Segments
from mtkit.network import GridLayout, Layout, PackedLayout
from mtkit.network.device import Sendable
from mtkit.text.token_ids import BOS, PAD

RowLayout = GridLayout | PackedLayout
"""A layout of training."""
LayOut = Callable[[Indices], RowLayout]
"""Returns the layout of one side of a micro-batch, given the tokens of each sentence."""


@dataclass(frozen=True)
class LinkedTokens(Sendable):
    """The pairs of a batch's target and source tokens that are aligned.

    Attributes:
        cells: int64 [links]: the index of each among a head's weights, which stand by grid
            (`Layout.grid_shapes`), sentence, target position and source position.
        num_sources: int64 [links]: the source tokens that the link's target token is aligned to.
    """

    cells: Tensor
    num_sources: Tensor


@dataclass(frozen=True)
class TranslationBatch(Sendable):
    """Sentence pairs as tensors, both sides laid out in the same way.

    Attributes:
        source_tokens: int64, of the source layout's shape: each sentence closed by `</s>`.
        source_layout: Where the sources stand.
        target_inputs: int64, of the target layout's shape: of each sentence, `<s>` and the target.
        target_layout: Where the targets stand.
        target_outputs: int64 [target tokens]: the targets, each closed by `</s>`, without padding:
            what each input predicts.
        links: The tokens that are aligned; None where none are asked for.
        is_filled: Whether every position predicts: at padding the target is padding, which the
            loss leaves out (`fill`).
    """

    source_tokens: Tensor
    source_layout: Layout
    target_inputs: Tensor
    target_layout: Layout
    target_outputs: Tensor
    links: LinkedTokens | None = None
    is_filled: bool = False

    def fill(self, max_length: int) -> "TranslationBatch":
        """Returns a packed batch whose shapes are those of its rows alone.

        Args:
            max_length: Tokens of the longest sentence of any batch.
        """
        source_layout, target_layout = self.source_layout, self.target_layout
        assert isinstance(source_layout, PackedLayout), "filled batches are packed"
        assert isinstance(target_layout, PackedLayout), "filled batches are packed"
        outputs = spread(self.target_outputs.numpy(), target_layout).flatten()
        everywhere = torch.arange(len(outputs))
        return replace(
            self,
            source_layout=replace(source_layout, max_length=max_length),
            target_layout=replace(target_layout, max_length=max_length, token_indices=everywhere),
            target_outputs=outputs,
            is_filled=True,
        )

    def link(self, links: Ragged, *, first_row: int) -> "TranslationBatch":
        """Returns the batch with the tokens that are aligned, before it is sent to a device.

        Args:
            links: Of each sentence, source and target index of each link in turn, by target index.
            first_row: The position at which the first target token's attention is looked at.

        Raises:
            ValueError: A link is beyond the batch.
        """
        sources, targets = links.tokens[::2], links.tokens[1::2]
        sentences = np.repeat(np.arange(len(links)), links.lengths // 2)
        # Of each sentence, where its weights begin, and the weights of a target position.
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
    """Text in one language as tensors, for a model that predicts each next token.

    Attributes:
        inputs: int64, of the layout's shape: of each row, `<s>` and its tokens but the last.
        layout: Where the rows stand.
        outputs: int64 [tokens]: the rows' tokens, without padding: what each input predicts.
    """

    inputs: Tensor
    layout: Layout
    outputs: Tensor


@dataclass(frozen=True)
class JoinedBatch(Sendable):
    """Sentence pairs as texts, for a decoder alone that learns the targets.

    Attributes:
        inputs: int64, of the layout's shape: of each pair, `<s>`, the source, `</s>`, and the
            target.
        layout: Where the texts stand.
        indices: int64 [target tokens]: which tokens predict targets, of all that aren't padding,
            text after text.
        outputs: int64 [target tokens]: the targets, each closed by `</s>`: what these predict.
    """

    inputs: Tensor
    layout: Layout
    indices: Tensor
    outputs: Tensor


@dataclass(frozen=True)
class MaskedBatch(Sendable):
    """Text in one language as tensors, for a model that predicts hidden tokens.

    Attributes:
        inputs: int64, of the layout's shape: of each text, `<s>`, its first segment, `</s>`, and
            its second, `</s>`, if there is one; some tokens hidden.
        segments: int64, likewise: 0 up to the first `</s>`, 1 behind it.
        layout: Where the texts stand.
        indices: int64 [predicted]: which tokens are predicted, of all that aren't padding, text
            after text.
        outputs: int64 [predicted]: what stood there.
        is_random: int64 [texts]: 1 where the second segment doesn't follow the first, else 0; None
            where there are no second segments.
    """

    inputs: Tensor
    segments: Tensor
    layout: Layout
    indices: Tensor
    outputs: Tensor
    is_random: Tensor | None


def collate_pairs(source: Ragged, target: Ragged, lay_out: LayOut) -> TranslationBatch:
    """Returns sentence pairs, each side closed by `</s>`, as one batch.

    Args:
        source: The sources.
        target: Their targets.
        lay_out: Returns the layout of a side, given the tokens of each sentence.
    """
    source_layout, target_layout = lay_out(source.lengths), lay_out(target.lengths)
    return TranslationBatch(
        spread(source.tokens, source_layout),
        source_layout,
        spread(_shift(target), target_layout),
        target_layout,
        torch.from_numpy(target.tokens),
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
    form = partial(lay_out_side, grid_sizes=grid_sizes, row_step=row_step)
    return collate_pairs(source, target, form)


def collate_text(text: Ragged, layout: RowLayout) -> TextBatch:
    """Returns rows of text as one batch with a layout of their lengths."""
    return TextBatch(spread(_shift(text), layout), layout, torch.from_numpy(text.tokens))


def join(source: Ragged, target: Ragged) -> Ragged:
    """Returns each source with its target behind it."""
    lengths = source.lengths + target.lengths
    starts = np.cumsum(lengths) - lengths
    tokens = np.empty(lengths.sum(), dtype=np.int64)
    tokens[join_ranges(starts, source.lengths)] = source.tokens
    tokens[join_ranges(starts + source.lengths, target.lengths)] = target.tokens
    return Ragged(tokens, lengths)


def collate_joined(source: Ragged, target: Ragged, layout: RowLayout) -> JoinedBatch:
    """Returns sentence pairs as texts in one batch.

    Args:
        source: The sources, each closed by `</s>`.
        target: Their targets, likewise.
        layout: The layout of texts as long as both together.
    """
    text = join(source, target)
    starts = np.cumsum(text.lengths) - text.lengths
    # A token is predicted at the position of the one before it, where inputs have the same index.
    indices = join_ranges(starts + source.lengths, target.lengths)
    return JoinedBatch(
        spread(_shift(text), layout),
        layout,
        torch.from_numpy(indices),
        torch.from_numpy(target.tokens),
    )


def collate_masked(segments: Segments, hidden: HiddenTokens, layout: RowLayout) -> MaskedBatch:
    """Returns texts with hidden tokens as one batch with a layout of their lengths."""
    is_random = segments.is_random
    return MaskedBatch(
        spread(hidden.inputs, layout),
        spread(segments.segments, layout, padding=0),
        layout,
        torch.from_numpy(hidden.indices),
        torch.from_numpy(hidden.outputs),
        None if is_random is None else torch.from_numpy(is_random.astype(np.int64)),
    )


def lay_out_side(lengths: Indices, grid_sizes: Sequence[int], *, row_step: int = 1) -> GridLayout:
    """Returns the layout of sentences in grids.

    Args:
        lengths: Tokens of each sentence, grid after grid.
        grid_sizes: Sentences of each grid.
        row_step: A number that divides the row's length.
    """
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


def spread(tokens: Indices, layout: RowLayout, *, padding: int = PAD) -> Tensor:
    """Returns the rows of a layout with the tokens of its sentences, and padding elsewhere."""
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
    """Returns the layout of packed sentences.

    Args:
        lengths: Tokens of each sentence, row after row.
        row_sizes: Sentences of each row, which may be none; all are in one row where it isn't
            given.
        width_step: A number that divides the width of a row.
    """
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
    """Returns the targets with `<s>` before each, and without its last token, as a rule `</s>`."""
    inputs = np.roll(target.tokens, 1)
    inputs[np.cumsum(target.lengths) - target.lengths] = BOS
    return inputs
