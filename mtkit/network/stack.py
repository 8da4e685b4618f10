"""Layers one after the other: an encoder, a decoder, or a language model."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.network.attention_kernels import limit_attention_kernels
from mtkit.network.cache import DecoderCache, LayerCache
from mtkit.network.layer import TransformerLayer
from mtkit.network.layer_norm import LayerNorm
from mtkit.network.layout import Layout
from mtkit.network.layouts import PaddedLayout, UnpaddedLayout
from mtkit.network.watched_head import WatchedHead
from mtkit.recipe.model import Model


class TransformerStack(nn.Module):
    """All layers of one side; pre-norm adds a norm after the last.

    Args:
        config: The recipe's section.
        num_layers: Layers of this stack.
        cross_attention: Whether its layers attend to a memory too, as a decoder's do.
        is_causal: Whether no position sees a later one, as in whatever predicts the next token.
    """

    def __init__(
        self, config: Model, num_layers: int, *, cross_attention: bool, is_causal: bool
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            TransformerLayer(config, cross_attention=cross_attention, is_causal=is_causal)
            for _ in range(num_layers)
        )
        self.final_norm = LayerNorm(config) if config.norm == "pre" else nn.Identity()

    def forward(
        self,
        states: Float[Tensor, "batch length d_model"],
        layout: Layout,
        memory: Float[Tensor, "batch src_len d_model"] | None = None,
        memory_layout: Layout | None = None,
        watched: WatchedHead | None = None,
    ) -> Float[Tensor, "batch length d_model"]:
        """Returns each position's vector, of all that it may see.

        Args:
            states: The embedded tokens.
            layout: The sentences' layout.
            memory: The encoded source, where the stack has cross-attention.
            memory_layout: The sources' layout.
            watched: A head whose attention to the source is asked for.
        """
        with limit_attention_kernels(states.device):
            for number, layer in enumerate(self.layers, start=1):
                is_watched = watched is not None and watched.layer == number
                of_layer = watched if is_watched else None
                states = layer(states, layout, memory, memory_layout, of_layer)
        normed: Tensor = self.final_norm(states)
        return normed

    def watch(
        self,
        states: Float[Tensor, "batch length d_model"],
        layout: Layout,
        memory: Float[Tensor, "batch src_len d_model"],
        memory_layout: Layout,
        watched: WatchedHead,
    ) -> None:
        """Passes states as far as a head whose attention to the source is all that is asked for."""
        with limit_attention_kernels(states.device):
            *before, last = list(self._list_layers())[: watched.layer]
            for layer in before:
                states = layer(states, layout, memory, memory_layout)
            last.watch(states, layout, memory, memory_layout, watched)

    def start(
        self,
        memory: Float[Tensor, "batch src_len d_model"],
        memory_layout: PaddedLayout | UnpaddedLayout,
    ) -> DecoderCache:
        """Returns a cache that holds the source and no target position."""
        layers = [
            LayerCache.of_source(*layer.cross_attention.project_memory(memory, memory_layout))
            for layer in self._list_layers()
        ]
        return DecoderCache(layers, memory_layout.is_token)

    def start_alone(self, num_sentences: int, device: torch.device) -> DecoderCache:
        """Returns an empty cache for a stack without cross-attention: a source without tokens."""
        no_source = torch.empty(num_sentences, 0, dtype=torch.bool, device=device)
        return DecoderCache([LayerCache() for _ in self.layers], no_source)

    def read(
        self, states: Float[Tensor, "batch length d_model"], layout: PaddedLayout
    ) -> DecoderCache:
        """Returns a cache that holds texts, for a stack without cross-attention to continue them.

        Args:
            states: The embedded tokens; none are fine.
            layout: The texts' layout.
        """
        caches = []
        with limit_attention_kernels(states.device):
            for layer in self._list_layers():
                states, layer_cache = layer.read(states, layout)
                caches.append(layer_cache)
        return DecoderCache.of_texts(caches, layout.is_token)

    def step(
        self, states: Float[Tensor, "batch beam d_model"], cache: DecoderCache
    ) -> Float[Tensor, "batch beam d_model"]:
        """Returns the newest position's vectors, and adds the position to the cache."""
        cache.begin_step()
        with limit_attention_kernels(states.device):
            for layer, layer_cache in zip(self._list_layers(), cache.layers, strict=True):
                states = layer.step(states, cache, layer_cache)
        normed: Tensor = self.final_norm(states)
        return normed

    def _list_layers(self) -> Iterator[TransformerLayer]:
        for layer in self.layers:
            assert isinstance(layer, TransformerLayer)
            yield layer
