"""A layout that keeps the weights of all attention that goes through it."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from mtkit.network.layout import Heads
from mtkit.network.layouts import PaddedLayout
from mtkit.network.scaled_dot_product import AttentionOptions, merge_heads


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
