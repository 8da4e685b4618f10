"""The layouts: padded, padded only in attention, in grids, packed."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mtkit.network.cpu.attention import join_grids, split_grids
from mtkit.network.device import Sendable
from mtkit.network.layout import Heads, States, Tokens
from mtkit.network.scaled_dot_product import (
    HIDDEN,
    AttentionOptions,
    attend,
    attend_by_mask,
    find_log_weights,
    merge_heads,
    split_heads,
)


@dataclass(frozen=True)
class _OneGridLayout(Sendable):
    """Layouts whose sentences attend in one padded grid; `is_token` is False at padding."""

    is_token: Bool[Tensor, "sentences length"]

    @property
    def max_length(self) -> int:
        """The padded length of sentences."""
        return self.is_token.shape[1]

    def split_heads(
        self, fused: Float[Tensor, "rows length width"], num_heads: int, widths: tuple[int, ...]
    ) -> tuple[Heads, ...]:
        """Returns each part of a projection by heads, with zeros at left-out padding."""
        return tuple((part,) for part in split_heads(self.pad(fused), num_heads, widths))

    def pad(
        self, states: Float[Tensor, "rows length width"]
    ) -> Float[Tensor, "sentences max_length width"]:
        """Returns each sentence's states, with zeros at left-out padding."""
        return states

    def _unpad(
        self, states: Float[Tensor, "sentences max_length width"]
    ) -> Float[Tensor, "rows length width"]:
        """Returns states in the layout's shape."""
        return states

    def attend(
        self,
        queries: Heads,
        keys: Heads,
        values: Heads,
        memory_layout: Any,
        options: AttentionOptions,
    ) -> Float[Tensor, "rows length all_heads"]:
        """Returns each sentence's attention; causal tokens never see the padding behind them."""
        mask = None if options.is_causal else memory_layout.is_token
        attended = attend(queries[0], keys[0], values[0], options, memory_is_token=mask)
        return self._unpad(merge_heads(attended))

    @property
    def grid_shapes(self) -> tuple[tuple[int, int], ...]:
        """One grid of all sentences."""
        return ((len(self.is_token), self.max_length),)

    def find_log_weights(
        self, queries: Heads, keys: Heads, memory_layout: Any, head: int
    ) -> list[Float[Tensor, "sentences queries memory"]]:
        """Returns the logarithms of one head's weights."""
        of_head = queries[0][:, head], keys[0][:, head]
        return [find_log_weights(*of_head, memory_layout.is_token)]


@dataclass(frozen=True)
class PaddedLayout(_OneGridLayout):
    """Each sentence in a row of its own, padded at the end; `is_token` is False at padding."""

    @classmethod
    def without_padding(cls, tokens: Tokens) -> "PaddedLayout":
        """Returns the layout of sentences of equal length."""
        return cls(torch.ones_like(tokens, dtype=torch.bool))

    @property
    def shape(self) -> tuple[int, int]:
        """Sentences, and their padded length."""
        return self.is_token.shape[0], self.is_token.shape[1]

    @property
    def positions(self) -> Int[Tensor, "1 length"]:
        """The same for every sentence."""
        return torch.arange(self.max_length, device=self.is_token.device)[None]

    def select_tokens(self, states: States) -> Float[Tensor, "tokens d_model"]:
        """Returns the states except padding's."""
        return states[self.is_token]

    def select_first(self, states: States) -> Float[Tensor, "batch d_model"]:
        """Returns the state of each sentence's first token."""
        return states[:, 0]


@dataclass(frozen=True)
class UnpaddedLayout(_OneGridLayout):
    """Sentences concatenated in one row; only attention pads them. This saves work on a CPU.

    Attributes:
        is_token: [sentences, length] in attention; False at padding, at the end.
        token_indices: int64: the indices of the row's tokens in the flattened `is_token`.
        positions: int64: each token's index in its own sentence, from 0.
    """

    token_indices: Int[Tensor, " tokens"]
    positions: Int[Tensor, "1 tokens"]

    @classmethod
    def of(cls, padded: PaddedLayout) -> "UnpaddedLayout":
        """Returns the layout of the same sentences without their padding."""
        indices = padded.is_token.flatten().nonzero()[:, 0]
        return cls(padded.is_token, indices, (indices % padded.max_length)[None])

    @property
    def shape(self) -> tuple[int, int]:
        """One row of all tokens."""
        return 1, len(self.token_indices)

    def pad(
        self, states: Float[Tensor, "1 tokens width"]
    ) -> Float[Tensor, "sentences length width"]:
        """Returns each sentence's states, with zeros at padding."""
        padded = states.new_zeros((self.is_token.numel(), states.shape[2]))
        padded.index_copy_(0, self.token_indices, states[0])
        return padded.view(*self.is_token.shape, -1)

    def _unpad(
        self, states: Float[Tensor, "sentences length width"]
    ) -> Float[Tensor, "1 tokens width"]:
        return states.flatten(0, 1).index_select(0, self.token_indices)[None]

    def select_tokens(
        self, states: Float[Tensor, "1 tokens d_model"]
    ) -> Float[Tensor, "tokens d_model"]:
        """Returns all states."""
        return states[0]

    def select_first(
        self, states: Float[Tensor, "1 tokens d_model"]
    ) -> Float[Tensor, "sentences d_model"]:
        """Returns the state of each sentence's first token."""
        return states[0, self.positions[0] == 0]


@dataclass(frozen=True)
class GridLayout(Sendable):
    """Padded grids of sentences of similar length, concatenated in a row.

    The cost of a pass doesn't depend on the number of grids, and rows of few different lengths need
    few kernels (docs/log.md). Only attention processes one grid at a time.

    Attributes:
        shapes: Sentences and padded length of each grid; what follows the last is unused.
        is_token: False at padding.
        positions: int64: each token's index in its own sentence, from 0.
        token_indices: int64: the row's indices of real tokens.
    """

    shapes: tuple[tuple[int, int], ...]
    is_token: Bool[Tensor, "1 row"]
    positions: Int[Tensor, "1 row"]
    token_indices: Int[Tensor, " tokens"]
    max_length: int

    @property
    def shape(self) -> tuple[int, int]:
        """One row of all grids."""
        return 1, self.is_token.shape[1]

    def split_heads(
        self, fused: Float[Tensor, "1 row width"], num_heads: int, widths: tuple[int, ...]
    ) -> tuple[Heads, ...]:
        """Returns each part of a projection by grids and heads."""
        return split_grids(fused, num_heads, widths, self.shapes)

    def attend(
        self,
        queries: Heads,
        keys: Heads,
        values: Heads,
        memory_layout: "GridLayout",
        options: AttentionOptions,
    ) -> Float[Tensor, "1 row all_heads"]:
        """Returns each grid's attention, without padding's keys."""
        attended = [
            attend(*heads, options, memory_is_token=None if options.is_causal else is_token)
            for heads, is_token in zip(
                zip(queries, keys, values, strict=True), memory_layout._split_mask(), strict=True
            )
        ]
        return join_grids(attended, self.shape[1])

    @property
    def grid_shapes(self) -> tuple[tuple[int, int], ...]:
        """The layout's own grids."""
        return self.shapes

    def find_log_weights(
        self, queries: Heads, keys: Heads, memory_layout: "GridLayout", head: int
    ) -> list[Float[Tensor, "count queries memory"]]:
        """Returns the logarithms of one head's weights, grid after grid."""
        grids = zip(queries, keys, memory_layout._split_mask(), strict=True)
        return [
            find_log_weights(of_queries[:, head], of_keys[:, head], is_token)
            for of_queries, of_keys, is_token in grids
        ]

    def _split_mask(self) -> list[Bool[Tensor, "batch length"]]:
        """Returns `is_token` of each grid."""
        sizes = [count * length for count, length in self.shapes]
        grids = torch.split(self.is_token[0, : sum(sizes)], sizes)
        return [grid.view(shape) for grid, shape in zip(grids, self.shapes, strict=True)]

    def select_tokens(
        self, states: Float[Tensor, "1 row d_model"]
    ) -> Float[Tensor, "tokens d_model"]:
        """Returns the states except padding's."""
        return states[0, self.token_indices]

    def select_first(
        self, states: Float[Tensor, "1 row d_model"]
    ) -> Float[Tensor, "sentences d_model"]:
        """Returns the state of each sentence's first token, grid after grid."""
        firsts, begin = [], 0
        for count, length in self.shapes:
            end = begin + count * length
            firsts.append(states[0, begin:end:length])
            begin = end
        return torch.cat(firsts)


@dataclass(frozen=True)
class PackedLayout(Sendable):
    """Rows that several sentences share, for a GPU: few rows, nearly full, of one width.

    Attributes:
        sentences: int64: each token's sentence, from 0; -1 at padding.
        positions: int64: each token's index in its own sentence, from 0.
        token_indices: int64: flat indices of tokens, sentence after sentence; all in a filled
            batch.
        starts: int64: flat index of each sentence's first token.
        max_length: Tokens of the longest sentence; in a filled batch a bound of any batch's.
        shares: Whether a row has more than one sentence.
        masks: By use; each is made once for all layers.
    """

    sentences: Int[Tensor, "rows width"]
    positions: Int[Tensor, "rows width"]
    token_indices: Int[Tensor, " tokens"]
    starts: Int[Tensor, " count"]
    max_length: int
    shares: bool
    masks: dict[Hashable, Tensor] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and their width."""
        return self.sentences.shape[0], self.sentences.shape[1]

    def split_heads(
        self, fused: Float[Tensor, "rows width all_parts"], num_heads: int, widths: tuple[int, ...]
    ) -> tuple[Heads, ...]:
        """Returns views of each part of a projection by heads."""
        return tuple((part,) for part in split_heads(fused, num_heads, widths))

    def attend(
        self,
        queries: Heads,
        keys: Heads,
        values: Heads,
        memory_layout: "PackedLayout",
        options: AttentionOptions,
    ) -> Float[Tensor, "rows width all_heads"]:
        """Returns each sentence's attention."""
        mask = None
        # The padding behind a row's only sentence is later than all of it.
        if self.shares or not options.is_causal or options.window is not None:
            mask = self._find_mask(memory_layout, options, queries[0].dtype)
        return merge_heads(attend_by_mask(queries[0], keys[0], values[0], mask, options.dropout))

    def _find_mask(
        self, memory_layout: "PackedLayout", options: AttentionOptions, dtype: torch.dtype
    ) -> Float[Tensor, "rows 1 queries memory"]:
        kind = id(memory_layout), options.is_causal, options.window, dtype
        if kind not in self.masks:
            is_visible = self.sentences[:, :, None] == memory_layout.sentences[:, None, :]
            ahead = memory_layout.positions[:, None, :] - self.positions[:, :, None]
            if options.is_causal:
                is_visible &= ahead <= 0
            if options.window is not None:
                is_visible &= ahead.abs() <= options.window
            mask = torch.full(is_visible.shape, HIDDEN, dtype=dtype, device=is_visible.device)
            self.masks[kind] = mask.masked_fill_(is_visible, 0.0)[:, None]
        return self.masks[kind]

    @property
    def grid_shapes(self) -> tuple[tuple[int, int], ...]:
        """One padded grid of all sentences, for the weights of a head."""
        return ((len(self.starts), self.max_length),)

    def find_log_weights(
        self, queries: Heads, keys: Heads, memory_layout: "PackedLayout", head: int
    ) -> list[Float[Tensor, "sentences queries memory"]]:
        """Returns the logarithms of one head's weights."""
        padded_queries, _ = self._pad(queries[0][:, head])
        padded_keys, is_token = memory_layout._pad(keys[0][:, head])
        return [find_log_weights(padded_queries, padded_keys, is_token)]

    def _pad(
        self, states: Float[Tensor, "rows width d_key"]
    ) -> tuple[Float[Tensor, "sentences length d_key"], Bool[Tensor, "sentences length"]]:
        """Returns the states with a row for each sentence, and the mask of real tokens."""
        indices = self.starts[:, None] + torch.arange(self.max_length, device=self.starts.device)
        indices = indices.clamp(max=self.sentences.numel() - 1)
        own = torch.arange(len(self.starts), device=self.starts.device)[:, None]
        return states.flatten(0, 1)[indices], self.sentences.flatten()[indices] == own

    def select_tokens(
        self, states: Float[Tensor, "rows width d_model"]
    ) -> Float[Tensor, "tokens d_model"]:
        """Returns the states except padding's."""
        return states.flatten(0, 1).index_select(0, self.token_indices)

    def select_first(
        self, states: Float[Tensor, "rows width d_model"]
    ) -> Float[Tensor, "sentences d_model"]:
        """Returns the state of each sentence's first token."""
        return states.flatten(0, 1).index_select(0, self.starts)


@dataclass(frozen=True)
class RecordingLayout(PaddedLayout):
    """Padded sentences with unfused attention, whose weights are kept.

    Attributes:
        weights: softmax(Q K^T / sqrt(d_key)) in fp32, [batch, heads, queries, memory], per
            attention in order; in a decoder layer self-attention comes before cross-attention.
    """

    weights: list[Float[Tensor, "batch heads queries memory"]] = field(default_factory=list)

    def attend(
        self,
        queries: Heads,
        keys: Heads,
        values: Heads,
        memory_layout: PaddedLayout,
        options: AttentionOptions,
    ) -> Float[Tensor, "batch length all_heads"]:
        """Returns each sentence's attention, and keeps its weights; without dropout."""
        scores = (queries[0] @ keys[0].transpose(2, 3)).float() * queries[0].shape[-1] ** -0.5
        ahead = memory_layout.positions[:, None, :] - self.positions[:, :, None]
        is_visible = memory_layout.is_token[:, None, :]
        if options.is_causal:
            is_visible = is_visible & (ahead <= 0)
        if options.window is not None:
            # Padding may have only padding near it; it sees itself, or it would become NaN.
            is_visible = is_visible & (ahead.abs() <= options.window) | (ahead == 0)
        weights = scores.masked_fill(~is_visible[:, None], -torch.inf).softmax(dim=-1)
        self.weights.append(weights)
        return merge_heads(weights.to(values[0].dtype) @ values[0])
