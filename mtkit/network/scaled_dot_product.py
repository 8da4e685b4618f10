"""softmax(Q K^T / sqrt(d_key)) V of each head (arXiv 1706.03762, section 3.2.1)."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mtkit.network.cpu.attention import attend_on_cpu


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
    """Returns the attention of padded sentences.

    Args:
        queries: One for each position that attends.
        keys: One for each position that may be attended to.
        values: As many; their weighted means are returned.
        memory_is_token: Keys that may be attended to; all where it isn't given.
        is_causal: Query i sees keys 0 to i; not together with `memory_is_token`, which some of
            PyTorch's kernels refuse beside it.
        window: Query i sees keys i - window to i + window at most; all where it isn't given.
        dropout: Share of attention weights dropped.
    """
    assert memory_is_token is None or not is_causal
    trains_on_cpu = queries.device.type == "cpu" and queries.requires_grad
    is_visible = None if memory_is_token is None else memory_is_token[:, None, None, :]
    if window is not None or (is_causal and trains_on_cpu):
        band = _find_band(queries, keys, window=window, is_causal=is_causal)
        if is_visible is not None and window is not None:
            # Padding may have nothing but padding near it; it sees itself, lest it become NaN.
            band = (is_visible & band) | torch.eye(
                band.shape[-1], dtype=torch.bool, device=band.device
            )
        is_visible = band
        is_causal = False
    if trains_on_cpu:
        return attend_on_cpu(queries, keys, values, is_visible=is_visible, dropout=dropout)
    return nn.functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=is_visible, dropout_p=dropout, is_causal=is_causal
    )


def attend_in_row(
    queries: Float[Tensor, "1 heads queries d_key"],
    keys: Float[Tensor, "1 heads memory d_key"],
    values: Float[Tensor, "1 heads memory d_value"],
    query_positions: Int[Tensor, "1 queries"],
    memory_positions: Int[Tensor, "1 memory"],
    *,
    is_causal: bool = False,
    window: int | None = None,
) -> Float[Tensor, "1 heads queries d_value"]:
    """Returns the attention of packed sentences, each within itself, by a mask of the whole row.

    Args:
        queries: One for each position that attends.
        keys: One for each position that may be attended to.
        values: As many; their weighted means are returned.
        query_positions: Each query's index in its own sentence, from 0.
        memory_positions: Likewise of the same sentences' keys.
        is_causal: A query sees no key behind its own position.
        window: A query sees no key further off than this; all where it isn't given.
    """
    query_sentences, memory_sentences = (
        # A sentence begins wherever a position is 0.
        torch.cumsum(positions[0] == 0, dim=0)
        for positions in (query_positions, memory_positions)
    )
    is_visible = query_sentences[:, None] == memory_sentences
    ahead = memory_positions - query_positions[0, :, None]
    if is_causal:
        is_visible &= ahead <= 0
    if window is not None:
        is_visible &= ahead.abs() <= window
    return nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=is_visible)


def attend_newest(
    queries: Float[Tensor, "batch heads beam d_key"],
    keys: Float[Tensor, "batch heads memory d_key"],
    values: Float[Tensor, "batch heads memory d_value"],
    bias: Float[Tensor, "batch 1 #beam memory"] | None,
) -> Float[Tensor, "batch heads beam d_value"]:
    """Returns the attention of the few queries of a decoding step.

    Args:
        queries: Each hypothesis's newest position.
        keys: One for each position that may be attended to.
        values: As many; their weighted means are returned.
        bias: 0 where a hypothesis may look, a very negative number elsewhere.
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


def split_heads(
    fused: Float[Tensor, "batch length _"], num_heads: int, widths: tuple[int, ...]
) -> tuple[Float[Tensor, "batch heads length _"], ...]:
    """Returns views of each part of a projection by heads.

    Args:
        fused: Parts side by side, each of `num_heads` heads.
        num_heads: Heads of each part.
        widths: Width of each part, all its heads.
    """
    return tuple(
        part.view(*part.shape[:2], num_heads, -1).transpose(1, 2)
        for part in torch.split(fused, list(widths), dim=-1)
    )


def merge_heads(
    heads: Float[Tensor, "batch heads length _"],
) -> Float[Tensor, "batch length _"]:
    """Returns each position's heads side by side."""
    return heads.transpose(1, 2).flatten(2)


def _find_band(
    queries: Tensor, keys: Tensor, *, window: int | None, is_causal: bool
) -> Bool[Tensor, "1 1 queries memory"]:
    """Returns which keys stand within a query's window, and not behind it where that is causal."""
    shape = queries.shape[2], keys.shape[2]
    band = torch.ones(shape, dtype=torch.bool, device=queries.device)
    if window is not None:
        band = band.triu(-window).tril(window)
    return (band.tril() if is_causal else band)[None, None]
