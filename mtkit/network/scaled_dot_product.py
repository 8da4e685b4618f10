"""softmax(Q K^T / sqrt(d_key)) V of each head (arXiv 1706.03762, section 3.2.1)."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mtkit.network.bands import choose_block, cut_into_bands, join_bands
from mtkit.network.cpu.attention import attend_on_cpu


@dataclass(frozen=True)
class AttentionOptions:
    """Which keys a query sees of its own sentence's, and dropout.

    Attributes:
        is_causal: None later than its own position.
        window: None further off than this (section 4); all where it is None.
        dropout: Share of attention weights dropped.
    """

    is_causal: bool = False
    window: int | None = None
    dropout: float = 0.0


_DEFAULT_OPTIONS = AttentionOptions()


def attend(
    queries: Float[Tensor, "batch heads queries d_key"],
    keys: Float[Tensor, "batch heads memory d_key"],
    values: Float[Tensor, "batch heads memory d_value"],
    options: AttentionOptions = _DEFAULT_OPTIONS,
    *,
    memory_is_token: Bool[Tensor, "batch memory"] | None = None,
) -> Float[Tensor, "batch heads queries d_value"]:
    """Returns the attention of padded sentences.

    Args:
        queries: One for each position that attends.
        keys: One for each position that may be attended to.
        values: As many; their weighted means are returned.
        options: Which keys a query sees, and dropout.
        memory_is_token: Keys that may be attended to; all where it isn't given. Not together with
            causality, which some of PyTorch's kernels refuse beside it.
    """
    is_causal = options.is_causal
    assert memory_is_token is None or not is_causal
    if options.window is not None and queries.shape[2] == keys.shape[2]:
        block = choose_block(queries.shape[2], options.window, is_causal=is_causal)
        if block:
            return _attend_in_bands((queries, keys, values), options, memory_is_token, block)
    trains_on_cpu = queries.device.type == "cpu" and queries.requires_grad
    is_visible = None if memory_is_token is None else memory_is_token[:, None, None, :]
    if options.window is not None or (is_causal and trains_on_cpu):
        band = _make_band(queries, keys, options)
        if is_visible is not None:
            # Padding may have nothing but padding near it; it sees itself, lest it become NaN.
            itself = torch.eye(band.shape[-1], dtype=torch.bool, device=band.device)
            band = (is_visible & band) | itself
        is_visible, is_causal = band, False
    if trains_on_cpu:
        return attend_on_cpu(queries, keys, values, is_visible=is_visible, dropout=options.dropout)
    return nn.functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=is_visible, dropout_p=options.dropout, is_causal=is_causal
    )


def _attend_in_bands(
    heads: tuple[Tensor, Tensor, Tensor],
    options: AttentionOptions,
    is_token: Bool[Tensor, "batch length"] | None,
    block: int,
) -> Float[Tensor, "batch heads length d_value"]:
    """Returns restricted attention, a block of queries at a time with the keys near it.

    `heads` are queries, keys and values, [batch, heads, length, width of a head].
    """
    assert options.window is not None
    queries = heads[0]
    blocks, near_keys, near_values, is_visible = cut_into_bands(
        *heads,
        is_token,
        block=block,
        window=options.window,
        is_causal=options.is_causal,
    )
    if queries.device.type == "cpu" and queries.requires_grad:
        attended = attend_on_cpu(
            blocks, near_keys, near_values, is_visible=is_visible, dropout=options.dropout
        )
    else:
        attended = nn.functional.scaled_dot_product_attention(
            blocks, near_keys, near_values, attn_mask=is_visible, dropout_p=options.dropout
        )
    return join_bands(attended, batch=queries.shape[0], length=queries.shape[2])


def attend_in_row(
    queries: Float[Tensor, "1 heads queries d_key"],
    keys: Float[Tensor, "1 heads memory d_key"],
    values: Float[Tensor, "1 heads memory d_value"],
    options: AttentionOptions,
    *,
    positions: tuple[Int[Tensor, "1 queries"], Int[Tensor, "1 memory"]],
) -> Float[Tensor, "1 heads queries d_value"]:
    """Returns the attention of packed sentences, each within itself, by a mask of the whole row.

    `positions` are each query's index in its own sentence, from 0, and each key's. No weights are
    dropped.
    """
    query_positions, memory_positions = positions[0][0, :, None], positions[1]
    # A sentence begins wherever a position is 0.
    query_sentences = torch.cumsum(query_positions == 0, dim=0)
    is_visible = query_sentences == torch.cumsum(memory_positions == 0, dim=1)
    ahead = memory_positions - query_positions
    if options.is_causal:
        is_visible &= ahead <= 0
    if options.window is not None:
        is_visible &= ahead.abs() <= options.window
    return nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=is_visible)


def attend_newest(
    queries: Float[Tensor, "batch heads beam d_key"],
    keys: Float[Tensor, "batch heads memory d_key"],
    values: Float[Tensor, "batch heads memory d_value"],
    bias: Float[Tensor, "batch 1 #beam memory"] | None,
) -> Float[Tensor, "batch heads beam d_value"]:
    """Returns the attention of each hypothesis's newest position, the few queries of a step.

    `bias` is 0 where a hypothesis sees a key, a very negative number elsewhere.
    """
    if queries.device.type != "cpu":
        return nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=bias)
    # Plain products beat PyTorch's fused kernel at this size (docs/log.md).
    scores = torch.matmul(queries.to(keys.dtype) * queries.shape[-1] ** -0.5, keys.transpose(2, 3))
    if bias is not None:
        scores += bias
    return torch.matmul(scores.softmax(dim=-1), values).to(queries.dtype)


def find_mean_weights(
    queries: Float[Tensor, "batch heads beam d_key"],
    keys: Float[Tensor, "batch heads memory d_key"],
    memory_is_token: Bool[Tensor, "batch memory"],
) -> Float[Tensor, "batch beam memory"]:
    """Returns the attention weights of a decoding step, in fp32, the mean of all heads."""
    scores_BHWM = (queries @ keys.transpose(2, 3)).float() * queries.shape[-1] ** -0.5
    scores_BHWM.masked_fill_(~memory_is_token[:, None, None, :], -torch.inf)
    weights: Tensor = scores_BHWM.softmax(dim=-1).mean(dim=1)
    return weights


def find_log_weights(
    queries: Float[Tensor, "batch queries d_key"],
    keys: Float[Tensor, "batch memory d_key"],
    memory_is_token: Bool[Tensor, "batch memory"],
) -> Float[Tensor, "batch queries memory"]:
    """Returns the logarithms of one head's attention weights, in fp32 at least."""
    wide = torch.promote_types(queries.dtype, torch.float32)
    scores = queries.to(wide) @ keys.to(wide).transpose(1, 2) * queries.shape[-1] ** -0.5
    visible = scores.masked_fill(~memory_is_token[:, None], -torch.inf)
    log_weights: Tensor = visible.log_softmax(dim=-1)
    return log_weights


def split_heads(
    fused: Float[Tensor, "batch length _"], num_heads: int, widths: tuple[int, ...]
) -> tuple[Float[Tensor, "batch heads length _"], ...]:
    """Returns views of a projection's parts by heads; `widths` are those of whole parts."""
    return tuple(
        part.view(*part.shape[:2], num_heads, -1).transpose(1, 2)
        for part in torch.split(fused, list(widths), dim=-1)
    )


def merge_heads(
    heads: Float[Tensor, "batch heads length _"],
) -> Float[Tensor, "batch length _"]:
    """Returns each position's heads side by side."""
    return heads.transpose(1, 2).flatten(2)


def _make_band(
    queries: Tensor, keys: Tensor, options: AttentionOptions
) -> Bool[Tensor, "1 1 queries memory"]:
    """Returns the keys that each query sees by its position alone."""
    shape = queries.shape[2], keys.shape[2]
    band = torch.ones(shape, dtype=torch.bool, device=queries.device)
    if options.window is not None:
        band = band.triu(-options.window).tril(options.window)
    return (band.tril() if options.is_causal else band)[None, None]
