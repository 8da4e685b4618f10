"""Multi-head attention (arXiv 1706.03762, section 3.2.2); rotary positions; a watched head."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.network.cache import DecoderCache, LayerCache
from mtkit.network.layout import Heads, Layout, NewestStates, SourceStates, States, TargetStates
from mtkit.network.layouts import PaddedLayout
from mtkit.network.scaled_dot_product import (
    AttentionOptions,
    attend_newest,
    find_mean_weights,
    merge_heads,
    split_heads,
)
from mtkit.network.sublayers import FusedLinear
from mtkit.recipe.model import Model

_INITIAL_POSITIONS = 256


def rotations(num_positions: int, d_key: int) -> Float[Tensor, "num_positions pairs 2"]:
    """Returns cosine and sine of p / 10000^(2i/d_key), in fp32 (equation 15).

    p counts positions, from 0; i counts the d_key / 2 pairs of a query or key.
    """
    pairs = torch.arange(d_key // 2, dtype=torch.float64)
    frequencies = torch.exp(-math.log(10_000.0) * 2.0 / d_key * pairs)
    angles = torch.arange(num_positions, dtype=torch.float64)[:, None] * frequencies
    return torch.stack((angles.cos(), angles.sin()), dim=-1).float()


class RotaryPositions(nn.Module):
    """Rotates dimensions 2i and 2i + 1 by p / 10000^(2i/d_key), for a token at position p.

    The table grows with the longest text, so lengths have no limit. `num_heads` counts heads of
    queries and keys together.
    """

    table: Tensor

    def __init__(self, d_key: int, num_heads: int) -> None:
        super().__init__()
        self.d_key, self.num_heads = d_key, num_heads
        self.register_buffer("table", rotations(_INITIAL_POSITIONS, d_key), persistent=False)

    def forward(
        self,
        projected: Float[Tensor, "batch length width"],
        positions: Int[Tensor, "#batch #length"],
        *,
        end: int,
    ) -> Float[Tensor, "batch length width"]:
        """Returns a projection with rotated queries and keys, which are its first heads.

        Angles and products are in at least fp32. `end` is larger than all positions.
        """
        if end > self.table.shape[0]:
            grown = rotations(max(end, 2 * self.table.shape[0]), self.d_key)
            self.table = grown.to(self.table)
        width = self.num_heads * self.d_key
        computed_type = torch.promote_types(projected.dtype, torch.float32)
        pairs = projected[..., :width].to(computed_type)
        pairs = pairs.reshape(*pairs.shape[:2], self.num_heads, -1, 2)
        # A rotation is a product with a complex number.
        turns = torch.view_as_complex(self.table[positions].to(computed_type)).unsqueeze(2)
        turned = torch.view_as_real(torch.view_as_complex(pairs) * turns).flatten(2)
        return torch.cat((turned.to(projected.dtype), projected[..., width:]), dim=-1)


@dataclass
class WatchedHead:
    """A decoder head, and its layer's queries and keys in the last pass; attention stays fused.

    Attributes:
        layer: The decoder layer, from 1.
        head: Its head, from 1; None for the mean of all.
    """

    layer: int
    head: int | None
    _queries: Heads = ()
    _keys: Heads = ()

    def keep(self, queries: Heads, keys: Heads) -> None:
        """Keeps a pass's queries and keys, by heads."""
        self._queries, self._keys = queries, keys

    def find_log_weights(self, layout: Layout, memory_layout: Layout) -> Float[Tensor, " cells"]:
        """Returns the logarithms of the head's weights in the last pass, and forgets the pass.

        Order: grid (`Layout.grid_shapes`), sentence, target position, source position.
        """
        assert self.head is not None, "one head"
        queries, keys = self._take()
        grids = layout.find_log_weights(queries, keys, memory_layout, self.head - 1)
        return torch.cat([grid.flatten() for grid in grids])

    def find_weights(
        self, layout: PaddedLayout, memory_layout: PaddedLayout
    ) -> Float[Tensor, "batch queries memory"]:
        """Returns the weights of the last pass, for padded sentences, and forgets the pass."""
        queries, keys = self._take()
        heads = range(queries[0].shape[1]) if self.head is None else (self.head - 1,)
        found = [
            layout.find_log_weights(queries, keys, memory_layout, head)[0].exp() for head in heads
        ]
        return torch.stack(found).mean(dim=0)

    def _take(self) -> tuple[Heads, Heads]:
        queries, keys = self._queries, self._keys
        assert queries, "a pass"
        self._queries = self._keys = ()
        return queries, keys


class SelfAttention(nn.Module):
    """Self-attention; with a window, restricted to a neighbourhood (section 4)."""

    def __init__(self, config: Model, *, is_causal: bool = False) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.is_causal = is_causal
        self.window = config.attention_window
        self.dropout = config.attention_dropout
        keys, values = config.num_heads * config.d_key, config.num_heads * config.d_value
        self.widths = keys, keys, values
        self.query_key_value = FusedLinear(config.d_model, self.widths, keys=1)
        is_rotary = config.positions == "rotary"
        self.rotary = RotaryPositions(config.d_key, 2 * config.num_heads) if is_rotary else None
        self.output = nn.Linear(values, config.d_model)

    def forward(
        self, inputs: States, layout: Layout, layer_cache: LayerCache | None = None
    ) -> States:
        """Returns the attention; `layer_cache`, for padded texts, gets the keys and values."""
        projected = self.query_key_value(inputs)
        if self.rotary is not None:
            projected = self.rotary(projected, layout.positions, end=layout.max_length)
        queries, keys, values = layout.split_heads(projected, self.num_heads, self.widths)
        if layer_cache is not None:
            layer_cache.append(keys[0], values[0], first=0, oldest=0)
        dropout = self.dropout if self.training else 0.0
        options = AttentionOptions(self.is_causal, self.window, dropout)
        merged: Tensor = self.output(layout.attend(queries, keys, values, layout, options))
        return merged

    def step(
        self, inputs: NewestStates, cache: DecoderCache, layer_cache: LayerCache
    ) -> NewestStates:
        """Returns the attention of each hypothesis's newest position, and caches it."""
        projected = self.query_key_value(inputs)
        if self.rotary is not None:
            projected = self.rotary(projected, cache.newest_positions, end=cache.num_steps)
        queries, keys, values = split_heads(projected, self.num_heads, self.widths)
        oldest = cache.find_oldest_slot(self.window)
        keys, values = layer_cache.append(keys, values, first=cache.newest_slot, oldest=oldest)
        bias = cache.find_slot_bias(oldest, keys.dtype, window=self.window)
        merged: Tensor = self.output(merge_heads(attend_newest(queries, keys, values, bias)))
        return merged


class CrossAttention(nn.Module):
    """Attention of the target to the encoded source."""

    def __init__(self, config: Model) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.dropout = config.attention_dropout
        keys, values = config.num_heads * config.d_key, config.num_heads * config.d_value
        self.widths = keys, values
        self.query = nn.Linear(config.d_model, keys)
        self.key_value = FusedLinear(config.d_model, self.widths, keys=0)
        self.output = nn.Linear(values, config.d_model)

    def forward(
        self,
        inputs: TargetStates,
        layout: Layout,
        memory: SourceStates,
        memory_layout: Layout,
        watched: WatchedHead | None = None,
    ) -> TargetStates:
        """Returns the attention to the encoded source; `watched` keeps queries and keys."""
        (queries,) = layout.split_heads(self.query(inputs), self.num_heads, self.widths[:1])
        keys, values = self.project_memory(memory, memory_layout)
        if watched is not None:
            watched.keep(queries, keys)
        options = AttentionOptions(dropout=self.dropout if self.training else 0.0)
        merged: Tensor = self.output(layout.attend(queries, keys, values, memory_layout, options))
        return merged

    def watch(
        self,
        inputs: TargetStates,
        layout: Layout,
        memory: SourceStates,
        memory_layout: Layout,
        watched: WatchedHead,
    ) -> None:
        """Only keeps the queries and keys of a head, without computing the attention."""
        (queries,) = layout.split_heads(self.query(inputs), self.num_heads, self.widths[:1])
        watched.keep(queries, self.project_memory(memory, memory_layout)[0])

    def project_memory(self, memory: SourceStates, memory_layout: Layout) -> tuple[Heads, ...]:
        """Returns the source's keys and values, which are the same for every target step."""
        return memory_layout.split_heads(self.key_value(memory), self.num_heads, self.widths)

    def step(
        self, inputs: NewestStates, cache: DecoderCache, layer_cache: LayerCache
    ) -> NewestStates:
        """Returns each hypothesis's attention to its sentence's source, which isn't copied."""
        # Hypotheses are passed as target positions: here none sees another.
        (queries,) = split_heads(self.query(inputs), self.num_heads, self.widths[:1])
        keys, values = layer_cache.source_keys, layer_cache.source_values
        assert keys is not None
        assert values is not None
        attended = attend_newest(queries, keys, values, cache.source_bias)
        if cache.keeps_attention and layer_cache is cache.layers[-1]:
            cache.source_attention = find_mean_weights(queries, keys, cache.source_is_token)
        merged: Tensor = self.output(merge_heads(attended))
        return merged
