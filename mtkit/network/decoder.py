"""The decoder stack (arXiv 1706.03762, section 3.1)."""

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from mtkit.network.attention import CrossAttention, SelfAttention, keep_for_steps
from mtkit.network.cache import DecoderCache, LayerCache
from mtkit.network.dropout import Dropout
from mtkit.network.feed_forward import FeedForward
from mtkit.network.grids import Grids
from mtkit.network.layer_norm import LayerNorm
from mtkit.network.packing import Packing
from mtkit.recipe.model import Model


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the source, feed-forward; each with residual and norm."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.norm_first = model.norm == "pre"
        self.self_attention = SelfAttention(
            model.d_model,
            num_heads=model.num_heads,
            d_key=model.d_key,
            d_value=model.d_value,
            dropout=model.attention_dropout,
            window=model.attention_window,
        )
        self.self_attention_norm = LayerNorm(model.d_model)
        self.cross_attention = CrossAttention(
            model.d_model,
            num_heads=model.num_heads,
            d_key=model.d_key,
            d_value=model.d_value,
            dropout=model.attention_dropout,
        )
        self.cross_attention_norm = LayerNorm(model.d_model)
        self.feed_forward = FeedForward(
            model.d_model, model.d_ff, activation=model.activation, dropout=model.activation_dropout
        )
        self.feed_forward_norm = LayerNorm(model.d_model)
        self.dropout = Dropout(model.dropout)

    def forward(
        self,
        states: Float[Tensor, "batch tgt_len d_model"],
        memory: Float[Tensor, "batch src_len d_model"],
        source_is_token: Bool[Tensor, "batch src_len"] | Grids | Packing,
        target_at: Grids | Packing | None = None,
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """Returns the layer's output for all target positions at once.

        Padding stands behind a target's real tokens, where the causal mask already hides it.
        """
        return self._through(
            states,
            lambda inputs: self.self_attention(inputs, is_token=target_at, is_causal=True),
            lambda inputs: self.cross_attention(inputs, memory, source_is_token, target_at),
        )

    def step(
        self, states: Float[Tensor, "batch beam d_model"], cache: DecoderCache, layer: LayerCache
    ) -> Float[Tensor, "batch beam d_model"]:
        """Returns the layer's output for the newest position, and adds it to the cache."""
        return self._through(
            states,
            lambda inputs: self.self_attention.step(inputs, cache, layer),
            lambda inputs: self.cross_attention.step(inputs, cache, layer),
        )

    def _through(
        self,
        states: Tensor,
        attend_to_target: Callable[[Tensor], Tensor],
        attend_to_source: Callable[[Tensor], Tensor],
    ) -> Tensor:
        for norm, sub_layer in (
            (self.self_attention_norm, attend_to_target),
            (self.cross_attention_norm, attend_to_source),
            (self.feed_forward_norm, self.feed_forward),
        ):
            if self.norm_first:
                states = self.dropout.add(states, sub_layer(norm(states)))
            else:
                states = norm(self.dropout.add(states, sub_layer(states)))
        return states


class Decoder(nn.Module):
    """All decoder layers; pre-norm adds a norm after the last."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(model) for _ in range(model.num_decoder_layers))
        self.final_norm = LayerNorm(model.d_model) if model.norm == "pre" else nn.Identity()

    def forward(
        self,
        states: Float[Tensor, "batch tgt_len d_model"],
        memory: Float[Tensor, "batch src_len d_model"],
        source_is_token: Bool[Tensor, "batch src_len"] | Grids | Packing,
        target_at: Grids | Packing | None = None,
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """Returns each target position's vector, from which the next token is predicted."""
        for layer in self.layers:
            states = layer(states, memory, source_is_token, target_at)
        normed: Tensor = self.final_norm(states)
        return normed

    def start(
        self,
        memory: Float[Tensor, "batch src_len d_model"],
        source_is_token: Bool[Tensor, "batch src_len"],
    ) -> DecoderCache:
        """Returns a cache that holds the source and no target position."""
        layers = [
            LayerCache(*map(keep_for_steps, layer.cross_attention.project_memory(memory)))
            for layer in self.layers
            if isinstance(layer, DecoderLayer)
        ]
        return DecoderCache(layers, source_is_token)

    def step(
        self, states: Float[Tensor, "batch beam d_model"], cache: DecoderCache
    ) -> Float[Tensor, "batch beam d_model"]:
        """Returns the newest position's vectors, and adds the position to the cache."""
        cache.begin_step()
        for layer, layer_cache in zip(self.layers, cache.layers, strict=True):
            assert isinstance(layer, DecoderLayer)
            states = layer.step(states, cache, layer_cache)
        normed: Tensor = self.final_norm(states)
        return normed
