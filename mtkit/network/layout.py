"""Layouts: how the sentences of a batch lie in its tensors, padded, in padded grids, or packed.

A network is given one layout a side, of the same kind, and never asks which kind it is: a layout
splits a projection into heads, attends within each sentence and merges the heads again. All other
parts of a network treat each token by itself.
"""

from typing import Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mtkit.network.scaled_dot_product import AttentionOptions

States = Float[Tensor, "batch length d_model"]
Tokens = Int[Tensor, "batch length"]
SourceStates = Float[Tensor, "batch src_len d_model"]
SourceTokens = Int[Tensor, "batch src_len"]
TargetStates = Float[Tensor, "batch tgt_len d_model"]
TargetTokens = Int[Tensor, "batch tgt_len"]
"""Tokens of a layout, of sources, of targets; and their vectors."""
NewestStates = Float[Tensor, "batch beam d_model"]
NewestTokens = Int[Tensor, "batch beam"]
NewestLogits = Float[Tensor, "batch beam vocab"]
"""Of a decoding step: each hypothesis's newest token, its vector, and the logits of the next."""
Heads = tuple[Float[Tensor, "_ heads _ _"], ...]
"""Queries, keys or values [batch, heads, length, width of a head]: of each grid, or one for all."""

_Kind = TypeVar("_Kind")


@runtime_checkable
class Layout(Protocol):
    """How the sentences of a batch lie in a tensor of tokens."""

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the tokens, [batch, length]."""
        ...

    @property
    def positions(self) -> Int[Tensor, "#batch length"]:
        """int64: each token's index in its own sentence, from 0."""
        ...

    @property
    def max_length(self) -> int:
        """An upper bound of the sentences' lengths."""
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
        options: AttentionOptions,
    ) -> Float[Tensor, "batch length all_heads"]:
        """Returns softmax(Q K^T / sqrt(d_key)) V of each head, within each sentence.

        Args:
            queries: Of this layout's tokens.
            keys: Of the memory's tokens.
            values: Of the memory's tokens.
            memory_layout: The memory's: this one itself, or that of the same sentences' other
                side, of the same kind.
            options: Which keys a query sees, and dropout.
        """
        ...

    @property
    def grid_shapes(self) -> tuple[tuple[int, int], ...]:
        """Sentences of each grid that `find_log_weights` makes, and the length of each."""
        ...

    def find_log_weights(
        self: _Kind, queries: Heads, keys: Heads, memory_layout: _Kind, head: int
    ) -> list[Float[Tensor, "count queries memory"]]:
        """Returns the logarithms of one head's attention weights, a tensor for each grid.

        Args:
            queries: Of this layout's tokens.
            keys: Of the memory's tokens.
            memory_layout: The memory's, as `attend` takes it.
            head: Which head, from 0.
        """
        ...

    def select_tokens(self, states: States) -> Float[Tensor, "tokens d_model"]:
        """Returns the states of real tokens, sentence after sentence."""
        ...

    def select_first(self, states: States) -> Float[Tensor, "sentences d_model"]:
        """Returns the state of each sentence's first token."""
        ...

    def to(self: _Kind, device: torch.device) -> _Kind:
        """Returns the layout on a device; the copy may still be under way on a GPU's stream."""
        ...
