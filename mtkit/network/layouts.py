"""Where the sentences of a batch stand: padded, in padded grids, or packed.

A network is given one layout a side, of the same kind, and never asks which kind it is: a layout
splits a projection into heads, attends within each sentence and joins the heads again. All that
treats each token by itself sees tokens alone.
"""

from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mtkit.network.attention_kernels import attend_packed, can_pack
from mtkit.network.cpu.heads import Heads, join_grids, split_grids
from mtkit.network.device import send
from mtkit.network.scaled_dot_product import attend, attend_in_row, merge_heads, split_heads

_Kind = TypeVar("_Kind")


@runtime_checkable
class Layout(Protocol):
    """Where the sentences of a batch stand in a tensor of tokens."""

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the tokens."""
        ...

    @property
    def positions(self) -> Int[Tensor, "#batch length"]:
        """int64: each token's index in its own sentence, from 0."""
        ...

    @property
    def max_length(self) -> int:
        """No sentence is longer."""
        ...

    def split_heads(
        self, fused: Float[Tensor, "batch length width"], num_heads: int, widths: tuple[int, ...]
    ) -> tuple[Heads, ...]:
        """Returns each part of a projection by heads.

        Args:
            fused: Parts side by side, each of `num_heads` heads.
            num_heads: Heads of each part.
            widths: Width of each part, all its heads.
        """
        ...

    def attend(
        self: _Kind,
        queries: Heads,
        keys: Heads,
        values: Heads,
        memory_layout: _Kind,
        *,
        is_causal: bool = False,
        window: int | None = None,
        dropout: float = 0.0,
    ) -> Float[Tensor, "batch length all_heads"]:
        """Returns softmax(Q K^T / sqrt(d_key)) V of each head, each sentence's by itself.

        Args:
            queries: Of this layout's tokens.
            keys: Of the memory's tokens.
            values: Likewise.
            memory_layout: Where the memory's sentences stand: this one itself, or that of the same
                sentences' other side, of the same kind.
            is_causal: A token sees no later one.
            window: A token sees none further off than this; all where it isn't given.
            dropout: Share of attention weights dropped.
        """
        ...

    def select_tokens(
        self, states: Float[Tensor, "batch length d_model"]
    ) -> Float[Tensor, "tokens d_model"]:
        """Returns the states of real tokens, sentence after sentence."""
        ...

    def to(self: _Kind, device: torch.device) -> _Kind:
        """Returns the layout on a device; the copy may still be under way on a GPU's stream."""
        ...


@dataclass(frozen=True)
class PaddedLayout:
    """Each sentence in a row of its own, padded at the end.

    Attributes:
        is_token: False at padding.
    """

    is_token: Bool[Tensor, "batch length"]

    @classmethod
    def without_padding(cls, tokens: Int[Tensor, "batch length"]) -> "PaddedLayout":
        """Returns where sentences of one length stand."""
        return cls(torch.ones_like(tokens, dtype=torch.bool))

    @property
    def shape(self) -> tuple[int, int]:
        """Sentences, and the length that they are padded to."""
        return self.is_token.shape[0], self.is_token.shape[1]

    @property
    def positions(self) -> Int[Tensor, "1 length"]:
        """The same of every sentence."""
        return torch.arange(self.max_length, device=self.is_token.device)[None]

    @property
    def max_length(self) -> int:
        """Length of the longest sentence."""
        return self.is_token.shape[1]

    def split_heads(
        self, fused: Float[Tensor, "batch length width"], num_heads: int, widths: tuple[int, ...]
    ) -> tuple[Heads, ...]:
        """Returns views of each part of a projection, [batch, heads, length, width of a head]."""
        return tuple((part,) for part in split_heads(fused, num_heads, widths))

    def attend(
        self,
        queries: Heads,
        keys: Heads,
        values: Heads,
        memory_layout: "PaddedLayout",
        *,
        is_causal: bool = False,
        window: int | None = None,
        dropout: float = 0.0,
    ) -> Float[Tensor, "batch length all_heads"]:
        """Returns each sentence's attention, without padding's keys."""
        attended = attend(
            *(queries + keys + values),
            # Padding stands behind a sentence's tokens, where none sees it anyway.
            memory_is_token=None if is_causal else memory_layout.is_token,
            is_causal=is_causal,
            window=window,
            dropout=dropout,
        )
        return merge_heads(attended)

    def select_tokens(
        self, states: Float[Tensor, "batch length d_model"]
    ) -> Float[Tensor, "tokens d_model"]:
        """Returns the states that aren't padding's."""
        return states[self.is_token]

    def to(self, device: torch.device) -> "PaddedLayout":
        """Returns the layout on a device."""
        return PaddedLayout(send(self.is_token, device))


@dataclass(frozen=True)
class GridLayout:
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

    def mask(self, grid: int) -> Bool[Tensor, "batch length"]:
        """Returns which positions of a grid are real."""
        first = sum(count * length for count, length in self.shapes[:grid])
        count, length = self.shapes[grid]
        return self.is_token[0, first : first + count * length].view(count, length)

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
        *,
        is_causal: bool = False,
        window: int | None = None,
        dropout: float = 0.0,
    ) -> Float[Tensor, "1 row all_heads"]:
        """Returns each grid's attention, without padding's keys."""
        attended = [
            attend(
                *heads,
                # Padding stands behind a sentence's tokens, where none sees it anyway.
                memory_is_token=None if is_causal else memory_layout.mask(grid),
                is_causal=is_causal,
                window=window,
                dropout=dropout,
            )
            for grid, heads in enumerate(zip(queries, keys, values, strict=True))
        ]
        return join_grids(attended, self.shape[1])

    def select_tokens(
        self, states: Float[Tensor, "1 row d_model"]
    ) -> Float[Tensor, "tokens d_model"]:
        """Returns the states that aren't padding's."""
        return states[0, self.token_indices]

    def to(self, device: torch.device) -> "GridLayout":
        """Returns the layout on a device."""
        return GridLayout(
            self.shapes,
            send(self.is_token, device),
            send(self.positions, device),
            send(self.token_indices, device),
            self.max_length,
        )


@dataclass(frozen=True)
class PackedLayout:
    """Sentences side by side in one row without padding, for a GPU.

    Attributes:
        offsets: int32: where each sentence begins, and where the last one ends.
        positions: int64: each token's index in its own sentence, from 0.
        max_length: Tokens of the longest sentence.
    """

    offsets: Int[Tensor, " bounds"]
    positions: Int[Tensor, "1 row"]
    max_length: int

    @property
    def shape(self) -> tuple[int, int]:
        """One row of all tokens."""
        return 1, self.positions.shape[1]

    def split_heads(
        self, fused: Float[Tensor, "1 row width"], num_heads: int, widths: tuple[int, ...]
    ) -> tuple[Heads, ...]:
        """Returns views of each part of a projection, [1, heads, row, width of a head]."""
        return tuple((part,) for part in split_heads(fused, num_heads, widths))

    def attend(
        self,
        queries: Heads,
        keys: Heads,
        values: Heads,
        memory_layout: "PackedLayout",
        *,
        is_causal: bool = False,
        window: int | None = None,
        dropout: float = 0.0,
    ) -> Float[Tensor, "1 row all_heads"]:
        """Returns each sentence's attention, which drops no weights."""
        assert dropout == 0.0
        (one_queries,), (one_keys,), (one_values,) = queries, keys, values
        d_key, d_value = one_keys.shape[-1], one_values.shape[-1]
        if can_pack(one_keys.device, one_keys.dtype, d_key=d_key, d_value=d_value):
            attended = attend_packed(
                one_queries,
                one_keys,
                one_values,
                offsets=(self.offsets, memory_layout.offsets),
                max_lengths=(self.max_length, memory_layout.max_length),
                is_causal=is_causal,
                window=window,
            )
        else:
            attended = attend_in_row(
                one_queries,
                one_keys,
                one_values,
                self.positions,
                memory_layout.positions,
                is_causal=is_causal,
                window=window,
            )
        return merge_heads(attended)

    def select_tokens(
        self, states: Float[Tensor, "1 row d_model"]
    ) -> Float[Tensor, "tokens d_model"]:
        """Returns all states."""
        return states[0]

    def to(self, device: torch.device) -> "PackedLayout":
        """Returns the layout on a device."""
        return PackedLayout(
            send(self.offsets, device), send(self.positions, device), self.max_length
        )
