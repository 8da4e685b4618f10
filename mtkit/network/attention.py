"""Multi-head attention (arXiv 1706.03762, section 3.2.2)."""

from jaxtyping import Float
from torch import Tensor, nn

from mtkit.network.cache import DecoderCache, LayerCache
from mtkit.network.fused_linear import FusedLinear
from mtkit.network.layout import Heads, Layout
from mtkit.network.rotary import RotaryPositions
from mtkit.network.scaled_dot_product import (
    AttentionOptions,
    attend_newest,
    find_mean_weights,
    merge_heads,
    split_heads,
)
from mtkit.network.watched_head import WatchedHead
from mtkit.recipe.model import Model


class SelfAttention(nn.Module):
    """Attention of a sequence to itself; with a window, to a neighbourhood (section 4).

    Args:
        config: The recipe's section.
        is_causal: Whether no position sees a later one.
    """

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
        self,
        inputs: Float[Tensor, "batch length d_model"],
        layout: Layout,
        layer_cache: LayerCache | None = None,
    ) -> Float[Tensor, "batch length d_model"]:
        """Returns each position's attention to the positions that it may see.

        Where a cache is given, keys and values of padded texts are kept in it.
        """
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
        self,
        inputs: Float[Tensor, "batch beam d_model"],
        cache: DecoderCache,
        layer_cache: LayerCache,
    ) -> Float[Tensor, "batch beam d_model"]:
        """Returns the attention of each hypothesis's newest position, and adds it to the cache."""
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
        inputs: Float[Tensor, "batch tgt_len d_model"],
        layout: Layout,
        memory: Float[Tensor, "batch src_len d_model"],
        memory_layout: Layout,
        watched: WatchedHead | None = None,
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """Returns each target position's attention to the encoded source.

        Where a head is watched, its queries and keys are kept in it.
        """
        (queries,) = layout.split_heads(self.query(inputs), self.num_heads, self.widths[:1])
        keys, values = self.project_memory(memory, memory_layout)
        if watched is not None:
            watched.keep(queries, keys)
        options = AttentionOptions(dropout=self.dropout if self.training else 0.0)
        merged: Tensor = self.output(layout.attend(queries, keys, values, memory_layout, options))
        return merged

    def watch(
        self,
        inputs: Float[Tensor, "batch tgt_len d_model"],
        layout: Layout,
        memory: Float[Tensor, "batch src_len d_model"],
        memory_layout: Layout,
        watched: WatchedHead,
    ) -> None:
        """Keeps the queries and keys of a head whose attention is all that is asked for."""
        (queries,) = layout.split_heads(self.query(inputs), self.num_heads, self.widths[:1])
        watched.keep(queries, self.project_memory(memory, memory_layout)[0])

    def project_memory(
        self, memory: Float[Tensor, "batch src_len d_model"], memory_layout: Layout
    ) -> tuple[Heads, ...]:
        """Returns the source's keys and values, which stay the same for every target step."""
        return memory_layout.split_heads(self.key_value(memory), self.num_heads, self.widths)

    def step(
        self,
        inputs: Float[Tensor, "batch beam d_model"],
        cache: DecoderCache,
        layer_cache: LayerCache,
    ) -> Float[Tensor, "batch beam d_model"]:
        """Returns each hypothesis's attention to its sentence's source, which isn't copied."""
        # Hypotheses of one sentence lie where target positions would: none sees another here.
        (queries,) = split_heads(self.query(inputs), self.num_heads, self.widths[:1])
        keys, values = layer_cache.source_keys, layer_cache.source_values
        assert keys is not None
        assert values is not None
        attended = attend_newest(queries, keys, values, cache.source_bias)
        if cache.keeps_attention and layer_cache is cache.layers[-1]:
            cache.source_attention = find_mean_weights(queries, keys, cache.source_is_token)
        merged: Tensor = self.output(merge_heads(attended))
        return merged
