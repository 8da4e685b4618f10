"""Layers (arXiv 1706.03762, section 3.1), and stacks of them: an encoder or a decoder."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mtkit.network.attention import CrossAttention, SelfAttention, WatchedHead
from mtkit.network.cache import DecoderCache, LayerCache
from mtkit.network.layout import Layout, NewestStates, SourceStates, States
from mtkit.network.layouts import PaddedLayout, UnpaddedLayout
from mtkit.network.scaled_dot_product import limit_attention_kernels
from mtkit.network.sublayers import Dropout, FeedForward, LayerNorm
from mtkit.recipe.model import Model


class TransformerLayer(nn.Module):
    """Self-attention, cross-attention if there is a memory, feed-forward."""

    # In files of weights a layer without cross-attention has `attention`; one with it has
    # `self_attention` and `cross_attention`. Each norm adds `_norm` to the name.

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
        states: States,
        layout: Layout,
        memory: SourceStates | None = None,
        memory_layout: Layout | None = None,
        watched: WatchedHead | None = None,
    ) -> States:
        """Returns the layer's output for all positions; `watched` is a head of this layer."""
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
        states: States,
        layout: Layout,
        memory: SourceStates,
        memory_layout: Layout,
        watched: WatchedHead,
    ) -> None:
        """Computes only as far as a head of this layer; see `TransformerStack.watch`."""
        attention, norm = self.find_self_attention()
        states = self._add(states, norm, lambda inputs: attention(inputs, layout))
        inputs = self.cross_attention_norm(states) if self.norm_first else states
        self.cross_attention.watch(inputs, layout, memory, memory_layout, watched)

    def read(self, states: States, layout: PaddedLayout) -> tuple[States, LayerCache]:
        """Returns the output for texts to continue, and the cache; without cross-attention."""
        layer_cache = LayerCache()
        attention, norm = self.find_self_attention()
        states = self._add(states, norm, lambda inputs: attention(inputs, layout, layer_cache))
        return self._add(states, self.feed_forward_norm, self.feed_forward), layer_cache

    def step(
        self, states: NewestStates, cache: DecoderCache, layer_cache: LayerCache
    ) -> NewestStates:
        """Returns the layer's output for the newest position, and caches it."""
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
        """Returns the layer's self-attention and its norm."""
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


class TransformerStack(nn.Module):
    """All layers of one side; pre-norm adds a norm after the last.

    Attributes:
        recomputes: Whether a forward pass keeps only the layers' inputs for the backward pass,
            which runs each layer again, with the same dropout (arXiv 1604.06174).
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
        self.recomputes = False

    def forward(
        self,
        states: States,
        layout: Layout,
        memory: SourceStates | None = None,
        memory_layout: Layout | None = None,
        watched: WatchedHead | None = None,
    ) -> States:
        """Returns each position's vector; `watched` keeps a head's queries and keys."""
        with limit_attention_kernels(states.device):
            for number, layer in enumerate(self.layers, start=1):
                is_watched = watched is not None and watched.layer == number
                inputs = states, layout, memory, memory_layout, watched if is_watched else None
                if self.recomputes and torch.is_grad_enabled():
                    # The backward pass is outside of this block.
                    run = limit_attention_kernels(states.device)(layer.__call__)
                    states = checkpoint(run, *inputs, use_reentrant=False)
                else:
                    states = layer(*inputs)
        normed: Tensor = self.final_norm(states)
        return normed

    def watch(
        self,
        states: States,
        layout: Layout,
        memory: SourceStates,
        memory_layout: Layout,
        watched: WatchedHead,
    ) -> None:
        """Computes only as far as a head's attention to the source."""
        with limit_attention_kernels(states.device):
            *before, last = list(self._list_layers())[: watched.layer]
            for layer in before:
                states = layer(states, layout, memory, memory_layout)
            last.watch(states, layout, memory, memory_layout, watched)

    def start(
        self, memory: SourceStates, memory_layout: PaddedLayout | UnpaddedLayout
    ) -> DecoderCache:
        """Returns a cache with the source and without target positions."""
        layers = [
            LayerCache.of_source(*layer.cross_attention.project_memory(memory, memory_layout))
            for layer in self._list_layers()
        ]
        return DecoderCache(layers, memory_layout.is_token)

    def start_alone(self, num_sentences: int, device: torch.device) -> DecoderCache:
        """Returns an empty cache for a stack without cross-attention, with an empty source."""
        no_source = torch.empty(num_sentences, 0, dtype=torch.bool, device=device)
        return DecoderCache([LayerCache() for _ in self.layers], no_source)

    def read(self, states: States, layout: PaddedLayout) -> DecoderCache:
        """Returns a cache of (possibly empty) texts, for a stack without cross-attention."""
        caches = []
        with limit_attention_kernels(states.device):
            for layer in self._list_layers():
                states, layer_cache = layer.read(states, layout)
                caches.append(layer_cache)
        return DecoderCache.of_texts(caches, layout.is_token)

    def step(self, states: NewestStates, cache: DecoderCache) -> NewestStates:
        """Returns the newest position's vectors, and caches the position."""
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
