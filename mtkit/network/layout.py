"""Layouts: how a batch's sentences are arranged in tensors: padded, in grids, or packed.

A network gets one layout per side, of the same kind, and never asks for the kind: a layout splits a
projection into heads, attends within each sentence and merges the heads. All other parts of a
network treat each token alone.
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
"""Queries, keys or values [batch, heads, length, head width], of each grid, or one for all."""

_Kind = TypeVar("_Kind")


@runtime_checkable
class Layout(Protocol):
    """The arrangement of a batch's sentences in a tensor of tokens."""

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
        """Returns each part of a projection by heads; `widths` are those of whole parts."""
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

        The memory is these sentences or their other side, in a layout of the same kind.
        """
        ...

    @property
    def grid_shapes(self) -> tuple[tuple[int, int], ...]:
        """Sentences and length of each grid of `find_log_weights`."""
        ...

    def find_log_weights(
        self: _Kind, queries: Heads, keys: Heads, memory_layout: _Kind, head: int
    ) -> list[Float[Tensor, "count queries memory"]]:
        """Returns the logarithms of one head's attention weights, per grid; heads count from 0."""
        ...

    def select_tokens(self, states: States) -> Float[Tensor, "tokens d_model"]:
        """Returns the states of real tokens, sentence after sentence."""
        ...

    def select_first(self, states: States) -> Float[Tensor, "sentences d_model"]:
        """Returns the state of each sentence's first token."""
        ...

    def to(self: _Kind, device: torch.device) -> _Kind:
        """Returns the layout on a device; the copy may still be running on a GPU's stream."""
        ...
