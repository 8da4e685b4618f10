"""One layer of a Transformer (arXiv 1706.03762, section 3.1)."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from mtkit.network.attention import CrossAttention, SelfAttention
from mtkit.network.cache import DecoderCache, LayerCache
from mtkit.network.dropout import Dropout
from mtkit.network.feed_forward import FeedForward
from mtkit.network.layer_norm import LayerNorm
from mtkit.network.layout import Layout
from mtkit.network.layouts import PaddedLayout
from mtkit.network.watched_head import WatchedHead
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
        self.has_cross_attention = cross_attention
        if cross_attention:
            self.self_attention = SelfAttention(config, is_causal=is_causal)
            self.self_attention_norm = LayerNorm(config)
            self.cross_attention = CrossAttention(config)
            self.cross_attention_norm = LayerNorm(config)
        else:
            self.attention = SelfAttention(config, is_causal=is_causal)
            self.attention_norm = LayerNorm(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = LayerNorm(config)
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        states: Float[Tensor, "batch length d_model"],
        layout: Layout,
        memory: Float[Tensor, "batch src_len d_model"] | None = None,
        memory_layout: Layout | None = None,
        watched: WatchedHead | None = None,
    ) -> Float[Tensor, "batch length d_model"]:
        """Returns the layer's output for all positions at once; see `TransformerStack`.

        `watched` is a head of this layer.
        """
        attention, norm = self.find_self_attention()
        states = self._add(states, norm, lambda inputs: attention(inputs, layout))
        if self.has_cross_attention:
            states = self._add(
                states,
                self.cross_attention_norm,
                lambda inputs: self.cross_attention(inputs, layout, memory, memory_layout, watched),
            )
        return self._add(states, self.feed_forward_norm, self.feed_forward)

    def watch(
        self,
        states: Float[Tensor, "batch length d_model"],
        layout: Layout,
        memory: Float[Tensor, "batch src_len d_model"],
        memory_layout: Layout,
        watched: WatchedHead,
    ) -> None:
        """Passes states as far as a head of this layer; see `TransformerStack.watch`."""
        attention, norm = self.find_self_attention()
        states = self._add(states, norm, lambda inputs: attention(inputs, layout))
        inputs = self.cross_attention_norm(states) if self.norm_first else states
        self.cross_attention.watch(inputs, layout, memory, memory_layout, watched)

    def read(
        self, states: Float[Tensor, "batch length d_model"], layout: PaddedLayout
    ) -> tuple[Float[Tensor, "batch length d_model"], LayerCache]:
        """Returns the output for texts that are continued, and a cache of their keys and values.

        For a layer without cross-attention.
        """
        layer_cache = LayerCache()
        attention, norm = self.find_self_attention()
        states = self._add(states, norm, lambda inputs: attention(inputs, layout, layer_cache))
        return self._add(states, self.feed_forward_norm, self.feed_forward), layer_cache

    def step(
        self,
        states: Float[Tensor, "batch beam d_model"],
        cache: DecoderCache,
        layer_cache: LayerCache,
    ) -> Float[Tensor, "batch beam d_model"]:
        """Returns the layer's output for the newest position, and adds it to the cache."""
        attention, norm = self.find_self_attention()
        states = self._add(states, norm, lambda inputs: attention.step(inputs, cache, layer_cache))
        if self.has_cross_attention:
            states = self._add(
                states,
                self.cross_attention_norm,
                lambda inputs: self.cross_attention.step(inputs, cache, layer_cache),
            )
        return self._add(states, self.feed_forward_norm, self.feed_forward)

    def find_self_attention(self) -> tuple[SelfAttention, LayerNorm]:
        """Returns the layer's attention to its own sequence, and the norm beside it."""
        if self.has_cross_attention:
            return self.self_attention, self.self_attention_norm
        return self.attention, self.attention_norm

    def _add(
        self, states: Tensor, norm: LayerNorm, sub_layer: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Returns the states plus a sub-layer's output, with dropout and a norm before or after."""
        if self.norm_first:
            return self.dropout.add(states, sub_layer(norm(states)))
        normed: Tensor = norm(self.dropout.add(states, sub_layer(states)))
        return normed
