"""The layouts that there are: padded, without padding but in attention, in grids, packed."""

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
    """Layouts whose sentences attend in one padded grid.

    Attributes:
        is_token: Where the sentences stand while they attend; False at padding, at the end.
    """

    is_token: Bool[Tensor, "sentences length"]

    @property
    def max_length(self) -> int:
        """Length that sentences are padded to."""
        return self.is_token.shape[1]

    def split_heads(
        self, fused: Float[Tensor, "rows length width"], num_heads: int, widths: tuple[int, ...]
    ) -> tuple[Heads, ...]:
        """Returns each part of a projection by heads, with zeros where padding was left out."""
        return tuple((part,) for part in split_heads(self.pad(fused), num_heads, widths))

    def pad(
        self, states: Float[Tensor, "rows length width"]
    ) -> Float[Tensor, "sentences max_length width"]:
        """Returns each sentence's states, with zeros where padding was left out."""
        return states

    def _unpad(
        self, states: Float[Tensor, "sentences max_length width"]
    ) -> Float[Tensor, "rows length width"]:
        """Returns states as the layout has them."""
        return states

    def attend(
        self,
        queries: Heads,
        keys: Heads,
        values: Heads,
        memory_layout: Any,
        options: AttentionOptions,
    ) -> Float[Tensor, "rows length all_heads"]:
        """Returns each sentence's attention, without padding's keys.

        Under causality there is no mask: no token sees the padding behind it.
        """
        mask = None if options.is_causal else memory_layout.is_token
        attended = attend(queries[0], keys[0], values[0], options, memory_is_token=mask)
        return self._unpad(merge_heads(attended))

    @property
    def grid_shapes(self) -> tuple[tuple[int, int], ...]:
        """All sentences are one grid."""
        return ((len(self.is_token), self.max_length),)

    def find_log_weights(
        self, queries: Heads, keys: Heads, memory_layout: Any, head: int
    ) -> list[Float[Tensor, "sentences queries memory"]]:
        """Returns the logarithms of one head's weights."""
        of_head = queries[0][:, head], keys[0][:, head]
        return [find_log_weights(*of_head, memory_layout.is_token)]


@dataclass(frozen=True)
class PaddedLayout(_OneGridLayout):
    """Each sentence in a row of its own, padded at the end.

    Attributes:
        is_token: False at padding.
    """

    @classmethod
    def without_padding(cls, tokens: Tokens) -> "PaddedLayout":
        """Returns the layout of sentences of one length."""
        return cls(torch.ones_like(tokens, dtype=torch.bool))

    @property
    def shape(self) -> tuple[int, int]:
        """Sentences, and the length that they are padded to."""
        return self.is_token.shape[0], self.is_token.shape[1]

    @property
    def positions(self) -> Int[Tensor, "1 length"]:
        """The same for every sentence."""
        return torch.arange(self.max_length, device=self.is_token.device)[None]

    def select_tokens(self, states: States) -> Float[Tensor, "tokens d_model"]:
        """Returns the states that aren't padding's."""
        return states[self.is_token]

    def select_first(self, states: States) -> Float[Tensor, "batch d_model"]:
        """Returns the state of each sentence's first token."""
        return states[:, 0]


@dataclass(frozen=True)
class UnpaddedLayout(_OneGridLayout):
    """Sentences side by side in one row without padding, which attention alone pads.

    For sources that are read on a CPU: linear maps and norms then cost nothing for padding.

    Attributes:
        is_token: Where the sentences stand while they attend; False at padding, at the end.
        token_indices: int64: where the row's tokens stand among these, sentence after sentence.
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
    """Sentences of similar length in padded grids, and the grids one after the other in a row.

    A pass costs the same however many grids there are, and rows of few different lengths want few
    different kernels (docs/log.md). Attention alone looks at one grid after the other.

    Attributes:
        shapes: Sentences of each grid, and the length that they are padded to; the grids begin at
            the row's first token, and what is behind the last one belongs to no sentence.
        is_token: False at padding.
        positions: int64: each token's index in its own sentence, from 0.
        token_indices: int64: where the row has a token.
        max_length: Length of the longest grid.
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
        """The grids as they are."""
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
        """Returns the states that aren't padding's."""
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
    """Rows that several sentences share, for a GPU: few rows, nearly full, all of one width.

    Each sentence attends within itself by a mask, which is made once and serves all layers.

    Attributes:
        sentences: int64: which sentence each token belongs to, from 0; -1 at padding.
        positions: int64: each token's index in its own sentence, from 0.
        token_indices: int64: where the rows, one behind the other, have a token, sentence after
            sentence; of a filled batch every position.
        starts: int64: where in the rows, one behind the other, each sentence begins.
        max_length: Tokens of the longest sentence; of a filled batch a bound of any batch's.
        shares: Whether a row has more than one sentence.
        masks: Those made so far, by what they are for.
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
        """All sentences are padded to one grid, where the weights of a head are asked for."""
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
        """Returns the states with a row for each sentence, and which aren't padding."""
        indices = self.starts[:, None] + torch.arange(self.max_length, device=self.starts.device)
        indices = indices.clamp(max=self.sentences.numel() - 1)
        own = torch.arange(len(self.starts), device=self.starts.device)[:, None]
        return states.flatten(0, 1)[indices], self.sentences.flatten()[indices] == own

    def select_tokens(
        self, states: Float[Tensor, "rows width d_model"]
    ) -> Float[Tensor, "tokens d_model"]:
        """Returns the states that aren't padding's."""
        return states.flatten(0, 1).index_select(0, self.token_indices)

    def select_first(
        self, states: Float[Tensor, "rows width d_model"]
    ) -> Float[Tensor, "sentences d_model"]:
        """Returns the state of each sentence's first token."""
        return states.flatten(0, 1).index_select(0, self.starts)


@dataclass(frozen=True)
class RecordingLayout(PaddedLayout):
    """Padded sentences whose attention is computed by its formula, and its weights kept.

    Attributes:
        weights: softmax(Q K^T / sqrt(d_key)) in fp32, [batch, heads, queries, memory], once for
            each attention, in order: of a decoder's layers first to itself, then to the source.
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
        """Returns each sentence's attention, and keeps its weights; drops none of them."""
        scores = (queries[0] @ keys[0].transpose(2, 3)).float() * queries[0].shape[-1] ** -0.5
        ahead = memory_layout.positions[:, None, :] - self.positions[:, :, None]
        is_visible = memory_layout.is_token[:, None, :]
        if options.is_causal:
            is_visible = is_visible & (ahead <= 0)
        if options.window is not None:
            # Padding may have nothing but padding near it; it sees itself, lest it become NaN.
            is_visible = is_visible & (ahead.abs() <= options.window) | (ahead == 0)
        weights = scores.masked_fill(~is_visible[:, None], -torch.inf).softmax(dim=-1)
        self.weights.append(weights)
        return merge_heads(weights.to(values[0].dtype) @ values[0])
