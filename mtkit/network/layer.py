"""One layer of a Transformer (arXiv 1706.03762, section 3.1)."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from mtkit.network.attention import CrossAttention, SelfAttention
from mtkit.network.cache import DecoderCache, LayerCache
from mtkit.network.dropout import Dropout
from mtkit.network.feed_forward import FeedForward
from mtkit.network.layer_norm import LayerNorm
from mtkit.network.layouts import Layout
from mtkit.recipe.model import Model


class TransformerLayer(nn.Module):
    """Self-attention, attention to a memory if there is one, feed-forward.

    Files of weights call the attention of a layer with one `attention`, those of a layer with two
    `self_attention` and `cross_attention`; the norm of each has the same name before `_norm`.

    Args:
        config: The recipe's section.
        cross_attention: Whether it attends to a memory.
        is_causal: Whether self-attention sees no later position.
    """

    def __init__(self, config: Model, *, cross_attention: bool, is_causal: bool) -> None:
        super().__init__()
        self.norm_first = config.norm == "pre"
        self.is_causal = is_causal
        self.has_cross_attention = cross_attention
        if cross_attention:
            self.self_attention = SelfAttention(config)
            self.self_attention_norm = LayerNorm(config.d_model)
            self.cross_attention = CrossAttention(config)
            self.cross_attention_norm = LayerNorm(config.d_model)
        else:
            self.attention = SelfAttention(config)
            self.attention_norm = LayerNorm(config.d_model)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = LayerNorm(config.d_model)
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        states: Float[Tensor, "batch length d_model"],
        layout: Layout,
        memory: Float[Tensor, "batch src_len d_model"] | None = None,
        memory_layout: Layout | None = None,
    ) -> Float[Tensor, "batch length d_model"]:
        """Returns the layer's output for all positions at once.

        Args:
            states: Each position's vector.
            layout: Where the sentences stand.
            memory: The vectors that cross-attention attends to.
            memory_layout: Where the memory's sentences stand.
        """
        return self._pass_through(
            states,
            lambda inputs: self._own_attention(inputs, layout, is_causal=self.is_causal),
            lambda inputs: self.cross_attention(inputs, layout, memory, memory_layout),
        )

    def step(
        self, states: Float[Tensor, "batch beam d_model"], cache: DecoderCache, layer: LayerCache
    ) -> Float[Tensor, "batch beam d_model"]:
        """Returns the layer's output for the newest position, and adds it to the cache."""
        return self._pass_through(
            states,
            lambda inputs: self._own_attention.step(inputs, cache, layer),
            lambda inputs: self.cross_attention.step(inputs, cache, layer),
        )

    @property
    def _own_attention(self) -> SelfAttention:
        return self.self_attention if self.has_cross_attention else self.attention

    def _pass_through(
        self,
        states: Tensor,
        attend_to_self: Callable[[Tensor], Tensor],
        attend_to_memory: Callable[[Tensor], Tensor],
    ) -> Tensor:
        if self.has_cross_attention:
            states = self._add(states, self.self_attention_norm, attend_to_self)
            states = self._add(states, self.cross_attention_norm, attend_to_memory)
        else:
            states = self._add(states, self.attention_norm, attend_to_self)
        return self._add(states, self.feed_forward_norm, self.feed_forward)

    def _add(
        self, states: Tensor, norm: LayerNorm, sub_layer: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Returns the states plus what a sub-layer makes of them, with dropout and a norm."""
        if self.norm_first:
            return self.dropout.add(states, sub_layer(norm(states)))
        normed: Tensor = norm(self.dropout.add(states, sub_layer(states)))
        return normed
