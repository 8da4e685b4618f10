"""Multi-head scaled dot-product attention (arXiv 1706.03762, section 3.2)."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mtkit.network.cache import DecoderCache, LayerCache
from mtkit.network.cpu.attention import attend_on_cpu
from mtkit.network.grids import Grids, join_heads, split_heads
from mtkit.network.packing import Packing, attend_within


def attend(
    queries: Float[Tensor, "batch heads queries d_key"],
    keys: Float[Tensor, "batch heads memory d_key"],
    values: Float[Tensor, "batch heads memory d_value"],
    *,
    memory_is_token: Bool[Tensor, "batch memory"] | None = None,
    is_causal: bool = False,
    window: int | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "batch heads queries d_value"]:
    """Returns softmax(Q K^T / sqrt(d_key)) V of each head.

    Args:
        queries: What asks.
        keys: What is compared with the queries.
        values: What is returned, weighted.
        memory_is_token: Which keys may be attended to; all where it isn't given.
        is_causal: Query i sees keys 0 to i; not together with `memory_is_token`, which some of
            PyTorch's kernels refuse beside it.
        window: Query i sees keys i - window to i + window at most; all where it isn't given.
        dropout: Share of attention weights dropped.
    """
    assert memory_is_token is None or not is_causal
    by_products = queries.device.type == "cpu" and queries.requires_grad
    is_visible = None if memory_is_token is None else memory_is_token[:, None, None, :]
    if window is not None or (is_causal and by_products):
        band = _find_band(queries, keys, window=window, is_causal=is_causal)
        if is_visible is not None and window is not None:
            # Padding may have nothing but padding near it; it sees itself, lest it be no number.
            band = (is_visible & band) | torch.eye(
                band.shape[-1], dtype=torch.bool, device=band.device
            )
        is_visible = band
        is_causal = False
    if by_products:
        return attend_on_cpu(queries, keys, values, is_visible=is_visible, dropout=dropout)
    return nn.functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=is_visible, dropout_p=dropout, is_causal=is_causal
    )


def attend_newest(
    queries: Float[Tensor, "batch heads beam d_key"],
    keys: Float[Tensor, "batch heads memory d_key"],
    values: Float[Tensor, "batch heads memory d_value"],
    bias: Float[Tensor, "batch 1 #beam memory"] | None,
) -> Float[Tensor, "batch heads beam d_value"]:
    """Returns softmax(Q K^T / sqrt(d_key) + bias) V of each head, for the few queries of a step.

    Args:
        queries: Each hypothesis's newest position.
        keys: What is compared with the queries.
        values: What is returned, weighted.
        bias: 0 where a hypothesis may look, a very negative number elsewhere.
    """
    if queries.device.type != "cpu":
        return nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=bias)
    # Plain products beat PyTorch's fused kernel at this size (docs/log.md).
    scores = torch.matmul(queries.to(keys.dtype) * queries.shape[-1] ** -0.5, keys.transpose(2, 3))
    if bias is not None:
        scores += bias
    return torch.matmul(scores.softmax(dim=-1), values).to(queries.dtype)


def keep_for_steps(
    heads: Float[Tensor, "batch heads memory width"],
) -> Float[Tensor, "batch heads memory width"]:
    """Returns keys or values as a cache shall keep them.

    Heads apart, which would else be copied apart at every step; in fp32 on a CPU, where products as
    small as those of a step gain nothing from bfloat16.
    """
    if heads.device.type == "cpu" and heads.dtype == torch.bfloat16:
        heads = heads.float()
    return heads.contiguous()


def _find_band(
    queries: Tensor, keys: Tensor, *, window: int | None, is_causal: bool
) -> Bool[Tensor, "1 1 queries memory"]:
    """Returns which keys stand where a query may look."""
    shape = queries.shape[2], keys.shape[2]
    band = torch.ones(shape, dtype=torch.bool, device=queries.device)
    if window is not None:
        band = band.triu(-window).tril(window)
    return (band.tril() if is_causal else band)[None, None]


def _project_with_idle_bias(
    linear: nn.Module, inputs: Tensor, widths: Sequence[int], *, idle: int
) -> Tensor:
    """Returns a linear map of the inputs; the gradient of the keys' bias is 0, as it is by right.

    A softmax over keys cancels what is added to all of them. What a backward pass finds is rounding
    alone, and Adam would make full steps of that: another cut into passes, another model.

    Args:
        linear: The map; an `nn.Linear`, but where it learns no more.
        inputs: What it maps.
        widths: Its rows, by what they make.
        idle: The place of the keys among them.
    """
    if not torch.is_grad_enabled():
        projected: Tensor = linear(inputs)
        return projected
    assert isinstance(linear, nn.Linear)
    parts = list(torch.split(linear.bias, list(widths)))
    parts[idle] = parts[idle].detach()
    return nn.functional.linear(inputs, linear.weight, torch.cat(parts))


class SelfAttention(nn.Module):
    """Attention of a sequence to itself; one product makes queries, keys and values.

    With a window it is restricted to a neighbourhood (section 4).
    """

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        d_key: int,
        d_value: int,
        dropout: float,
        window: int | None = None,
    ) -> None:
        super().__init__()
        self.num_heads, self.d_key, self.d_value = num_heads, d_key, d_value
        self.dropout = dropout
        self.window = window
        self.query_key_value = nn.Linear(d_model, num_heads * (2 * d_key + d_value))
        self.output = nn.Linear(num_heads * d_value, d_model)

    @property
    def widths(self) -> tuple[int, int, int]:
        """How many rows of `query_key_value` belong to queries, keys and values."""
        return (
            self.num_heads * self.d_key,
            self.num_heads * self.d_key,
            self.num_heads * self.d_value,
        )

    def forward(
        self,
        inputs: Float[Tensor, "batch length d_model"],
        *,
        is_token: Bool[Tensor, "batch length"] | Grids | Packing | None = None,
        is_causal: bool = False,
    ) -> Float[Tensor, "batch length d_model"]:
        """Returns what each position draws from the positions it may see.

        Args:
            inputs: The sequences; one row of them, where they are packed or in grids.
            is_token: Which positions are real, or where a row's sentences stand.
            is_causal: None sees a later one.
        """
        dropout = self.dropout if self.training else 0.0
        if isinstance(is_token, Grids):
            projected = _project_with_idle_bias(self.query_key_value, inputs, self.widths, idle=1)
            heads = [
                attend(
                    queries,
                    keys,
                    values,
                    # Padding stands behind a sentence's tokens, where none sees it anyway.
                    memory_is_token=None if is_causal else is_token.mask(grid),
                    is_causal=is_causal,
                    window=self.window,
                    dropout=dropout,
                )
                for grid, (queries, keys, values) in enumerate(
                    zip(
                        *split_heads(projected, self.num_heads, self.widths, is_token.shapes),
                        strict=True,
                    )
                )
            ]
            joined: Tensor = self.output(join_heads(heads, inputs.shape[1]))
            return joined
        queries, keys, values = self._project(inputs)
        if isinstance(is_token, Packing):
            assert dropout == 0.0
            heads_BHQV = attend_within(
                queries,
                keys,
                values,
                is_token,
                is_token,
                is_causal=is_causal,
                window=self.window,
            )
        else:
            heads_BHQV = attend(
                queries,
                keys,
                values,
                memory_is_token=is_token,
                is_causal=is_causal,
                window=self.window,
                dropout=dropout,
            )
        merged: Tensor = self.output(_merge_heads(heads_BHQV))
        return merged

    def step(
        self, inputs: Float[Tensor, "batch beam d_model"], cache: DecoderCache, layer: LayerCache
    ) -> Float[Tensor, "batch beam d_model"]:
        """Returns the output of each hypothesis's newest position, and adds it to the cache."""
        queries, keys, values = self._project(inputs)
        first, oldest, bias = cache.see(self.window)
        keys, values = layer.append(
            keys.to(layer.source_keys.dtype),
            values.to(layer.source_keys.dtype),
            first=first,
            oldest=oldest,
        )
        heads_BHWV = attend_newest(queries, keys, values, bias)
        merged: Tensor = self.output(_merge_heads(heads_BHWV))
        return merged

    def _project(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        projected = _project_with_idle_bias(self.query_key_value, inputs, self.widths, idle=1)
        queries, keys, values = _split_heads(projected, self.num_heads, self.widths)
        return queries, keys, values


class CrossAttention(nn.Module):
    """Attention of the target to the encoded source."""

    def __init__(
        self, d_model: int, *, num_heads: int, d_key: int, d_value: int, dropout: float
    ) -> None:
        super().__init__()
        self.num_heads, self.d_key, self.d_value = num_heads, d_key, d_value
        self.dropout = dropout
        self.query = nn.Linear(d_model, num_heads * d_key)
        self.key_value = nn.Linear(d_model, num_heads * (d_key + d_value))
        self.output = nn.Linear(num_heads * d_value, d_model)

    @property
    def widths(self) -> tuple[int, int]:
        """How many rows of `key_value` belong to keys and values."""
        return self.num_heads * self.d_key, self.num_heads * self.d_value

    def project_memory(
        self, memory: Float[Tensor, "batch src_len d_model"]
    ) -> tuple[
        Float[Tensor, "batch heads src_len d_key"], Float[Tensor, "batch heads src_len d_value"]
    ]:
        """Returns the source's keys and values, which stay the same for every target step."""
        keys, values = _split_heads(self._project_memory(memory), self.num_heads, self.widths)
        return keys, values

    def forward(
        self,
        inputs: Float[Tensor, "batch tgt_len d_model"],
        memory: Float[Tensor, "batch src_len d_model"],
        source_is_token: Bool[Tensor, "batch src_len"] | Grids | Packing,
        target_at: Grids | Packing | None = None,
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """Returns what each target position draws from the source.

        Args:
            inputs: The target positions.
            memory: The encoded source.
            source_is_token: Which of its positions are real, or where a row's sentences stand.
            target_at: Where the target's sentences stand, where they are in a row.
        """
        dropout = self.dropout if self.training else 0.0
        query_widths = (self.num_heads * self.d_key,)
        if isinstance(source_is_token, Grids):
            assert isinstance(target_at, Grids)
            (all_queries,) = split_heads(
                self.query(inputs), self.num_heads, query_widths, target_at.shapes
            )
            all_keys, all_values = split_heads(
                self._project_memory(memory), self.num_heads, self.widths, source_is_token.shapes
            )
            heads = [
                attend(
                    queries,
                    keys,
                    values,
                    memory_is_token=source_is_token.mask(grid),
                    dropout=dropout,
                )
                for grid, (queries, keys, values) in enumerate(
                    zip(all_queries, all_keys, all_values, strict=True)
                )
            ]
            joined: Tensor = self.output(join_heads(heads, inputs.shape[1]))
            return joined
        keys, values = self.project_memory(memory)
        (queries,) = _split_heads(self.query(inputs), self.num_heads, query_widths)
        if isinstance(source_is_token, Packing):
            assert isinstance(target_at, Packing)
            assert dropout == 0.0
            heads_BHTV = attend_within(queries, keys, values, target_at, source_is_token)
        else:
            heads_BHTV = attend(
                queries,
                keys,
                values,
                memory_is_token=source_is_token,
                dropout=dropout,
            )
        merged: Tensor = self.output(_merge_heads(heads_BHTV))
        return merged

    def _project_memory(self, memory: Tensor) -> Tensor:
        return _project_with_idle_bias(self.key_value, memory, self.widths, idle=0)

    def step(
        self, inputs: Float[Tensor, "batch beam d_model"], cache: DecoderCache, layer: LayerCache
    ) -> Float[Tensor, "batch beam d_model"]:
        """Returns each hypothesis's draw from its sentence's source, without copying the source."""
        (queries,) = _split_heads(
            self.query(inputs), self.num_heads, (self.num_heads * self.d_key,)
        )
        # Hypotheses of one sentence stand in place of target positions: none sees another here.
        heads_BHWV = attend_newest(
            queries, layer.source_keys, layer.source_values, cache.source_bias
        )
        if cache.keeps_attention and layer is cache.layers[-1]:
            cache.source_attention = _mean_weights(
                queries, layer.source_keys, cache.source_is_token
            )
        merged: Tensor = self.output(_merge_heads(heads_BHWV))
        return merged


def _mean_weights(
    queries_BHWK: Tensor, keys_BHSK: Tensor, is_token_BS: Tensor
) -> Float[Tensor, "batch beam src_len"]:
    """Returns the attention weights that `attend` used, in fp32, the mean of all heads."""
    scores_BHWS = (queries_BHWK @ keys_BHSK.transpose(2, 3)).float() * queries_BHWK.shape[
        -1
    ] ** -0.5
    scores_BHWS.masked_fill_(~is_token_BS[:, None, None, :], -torch.inf)
    weights: Tensor = scores_BHWS.softmax(dim=-1).mean(dim=1)
    return weights


def _split_heads(fused_BLE: Tensor, num_heads: int, widths: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Returns the parts of a projection, each [batch, heads, length, width of one head]."""
    batch_size, length, _ = fused_BLE.shape
    if fused_BLE.device.type == "cpu" and fused_BLE.requires_grad:
        parts = split_heads(fused_BLE, num_heads, widths, ((batch_size, length),))
        return tuple(heads for (heads,) in parts)
    return tuple(
        part.view(batch_size, length, num_heads, -1).transpose(1, 2)
        for part in torch.split(fused_BLE, list(widths), dim=-1)
    )


def _merge_heads(heads_BHLE: Tensor) -> Tensor:
    return heads_BHLE.transpose(1, 2).flatten(2)
