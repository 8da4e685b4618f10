"""Multi-head attention (arXiv 1706.03762, section 3.2.2)."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.network.cache import DecoderCache, LayerCache
from mtkit.network.cpu.heads import Heads
from mtkit.network.layouts import Layout
from mtkit.network.scaled_dot_product import (
    attend_newest,
    find_mean_weights,
    merge_heads,
    split_heads,
)
from mtkit.recipe.model import Model


class SelfAttention(nn.Module):
    """Attention of a sequence to itself; one product makes queries, keys and values.

    With a window it is restricted to a neighbourhood (section 4).
    """

    def __init__(self, config: Model) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.widths = (
            config.num_heads * config.d_key,
            config.num_heads * config.d_key,
            config.num_heads * config.d_value,
        )
        """How many rows of `query_key_value` belong to queries, keys and values."""
        self.dropout = config.attention_dropout
        self.window = config.attention_window
        self.query_key_value = nn.Linear(config.d_model, sum(self.widths))
        self.output = nn.Linear(self.widths[2], config.d_model)

    def forward(
        self,
        inputs: Float[Tensor, "batch length d_model"],
        layout: Layout,
        *,
        is_causal: bool = False,
    ) -> Float[Tensor, "batch length d_model"]:
        """Returns what each position draws from the positions it may see.

        Args:
            inputs: The sequences.
            layout: Where they stand.
            is_causal: No position sees a later one.
        """
        queries, keys, values = layout.split_heads(
            self._project(inputs), self.num_heads, self.widths
        )
        attended = layout.attend(
            queries,
            keys,
            values,
            layout,
            is_causal=is_causal,
            window=self.window,
            dropout=self.dropout if self.training else 0.0,
        )
        merged: Tensor = self.output(attended)
        return merged

    def step(
        self, inputs: Float[Tensor, "batch beam d_model"], cache: DecoderCache, layer: LayerCache
    ) -> Float[Tensor, "batch beam d_model"]:
        """Returns the output of each hypothesis's newest position, and adds it to the cache."""
        queries, keys, values = split_heads(self._project(inputs), self.num_heads, self.widths)
        first, oldest, bias = cache.see(self.window)
        keys, values = layer.append(keys, values, first=first, oldest=oldest)
        merged: Tensor = self.output(merge_heads(attend_newest(queries, keys, values, bias)))
        return merged

    def _project(self, inputs: Tensor) -> Tensor:
        return _project_with_idle_bias(self.query_key_value, inputs, self.widths, idle=1)


class CrossAttention(nn.Module):
    """Attention of the target to the encoded source."""

    def __init__(self, config: Model) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.widths = config.num_heads * config.d_key, config.num_heads * config.d_value
        """How many rows of `key_value` belong to keys and values."""
        self.dropout = config.attention_dropout
        self.query = nn.Linear(config.d_model, self.widths[0])
        self.key_value = nn.Linear(config.d_model, sum(self.widths))
        self.output = nn.Linear(self.widths[1], config.d_model)

    def forward(
        self,
        inputs: Float[Tensor, "batch tgt_len d_model"],
        layout: Layout,
        memory: Float[Tensor, "batch src_len d_model"],
        memory_layout: Layout,
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """Returns what each target position draws from the source.

        Args:
            inputs: The target positions.
            layout: Where the targets stand.
            memory: The encoded source.
            memory_layout: Where the sources stand.
        """
        (queries,) = layout.split_heads(self.query(inputs), self.num_heads, self.widths[:1])
        keys, values = self.project_memory(memory, memory_layout)
        dropout = self.dropout if self.training else 0.0
        attended = layout.attend(queries, keys, values, memory_layout, dropout=dropout)
        merged: Tensor = self.output(attended)
        return merged

    def project_memory(
        self, memory: Float[Tensor, "batch src_len d_model"], memory_layout: Layout
    ) -> tuple[Heads, ...]:
        """Returns the source's keys and values, which stay the same for every target step."""
        projected = _project_with_idle_bias(self.key_value, memory, self.widths, idle=0)
        return memory_layout.split_heads(projected, self.num_heads, self.widths)

    def step(
        self, inputs: Float[Tensor, "batch beam d_model"], cache: DecoderCache, layer: LayerCache
    ) -> Float[Tensor, "batch beam d_model"]:
        """Returns each hypothesis's draw from its sentence's source, without copying the source."""
        # Hypotheses of one sentence stand where target positions would: none sees another here.
        (queries,) = split_heads(self.query(inputs), self.num_heads, self.widths[:1])
        attended = attend_newest(queries, layer.source_keys, layer.source_values, cache.source_bias)
        if cache.keeps_attention and layer is cache.layers[-1]:
            cache.source_attention = find_mean_weights(
                queries, layer.source_keys, cache.source_is_token
            )
        merged: Tensor = self.output(merge_heads(attended))
        return merged


def _project_with_idle_bias(
    linear: nn.Module, inputs: Tensor, widths: Sequence[int], *, idle: int
) -> Tensor:
    """Returns a linear map of the inputs; the gradient of the keys' bias is 0, as it is by right.

    A softmax over keys cancels what is added to all of them. What a backward pass finds is rounding
    alone, and Adam would make full steps of that: another cut into passes, another model.

    Args:
        linear: The map; an `nn.Linear`, but where it is prepacked.
        inputs: Its inputs.
        widths: Its rows, by what they make.
        idle: The index of the keys among them.
    """
    if not torch.is_grad_enabled():
        projected: Tensor = linear(inputs)
        return projected
    assert isinstance(linear, nn.Linear)
    parts = list(torch.split(linear.bias, list(widths)))
    parts[idle] = parts[idle].detach()
    return nn.functional.linear(inputs, linear.weight, torch.cat(parts))
