"""softmax(Q K^T / sqrt(d_key)) V of each head (arXiv 1706.03762, section 3.2.1)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from mtkit.network.cpu.attention import attend_on_cpu


@dataclass(frozen=True)
class AttentionOptions:
    """The keys that a query sees in its own sentence, and dropout.

    Attributes:
        is_causal: Hides keys later than the query's position.
        window: Hides keys further away than this (section 4); None hides none.
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
    """Returns the attention of padded sentences; `memory_is_token` hides padding's keys."""
    # It can't be combined with causality, which some of PyTorch's kernels reject.
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
            # Padding may have only padding near it; it sees itself, or it would become NaN.
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
    """Returns restricted attention: each block of queries attends to the keys near it."""
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


HIDDEN = -30_000.0
"""A mask's value for hidden keys: its exponential is 0 in every dtype. Not -inf: padding that sees
nothing would become NaN."""


def attend_by_mask(
    queries: Float[Tensor, "rows heads queries d_key"],
    keys: Float[Tensor, "rows heads memory d_key"],
    values: Float[Tensor, "rows heads memory d_value"],
    mask: Float[Tensor, "rows 1 queries memory"] | None,
    dropout: float,
) -> Float[Tensor, "rows heads queries d_value"]:
    """Returns the attention of rows that several sentences share.

    `mask` is 0 for visible keys, `HIDDEN` for others; None means causal.
    """
    return nn.functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=mask, dropout_p=dropout, is_causal=mask is None
    )


def attend_newest(
    queries: Float[Tensor, "batch heads beam d_key"],
    keys: Float[Tensor, "batch heads memory d_key"],
    values: Float[Tensor, "batch heads memory d_value"],
    bias: Float[Tensor, "batch 1 #beam memory"] | None,
) -> Float[Tensor, "batch heads beam d_value"]:
    """Returns the attention of each hypothesis's newest position, the few queries of a step.

    `bias` is 0 for visible keys, a very negative number for others.
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
    """Returns the attention weights of a decoding step, in fp32, as the mean of all heads."""
    scores_BHWM = (queries.to(keys.dtype) @ keys.transpose(2, 3)).float()
    scores_BHWM *= queries.shape[-1] ** -0.5
    scores_BHWM.masked_fill_(~memory_is_token[:, None, None, :], -torch.inf)
    weights: Tensor = scores_BHWM.softmax(dim=-1).mean(dim=1)
    return weights


def find_log_weights(
    queries: Float[Tensor, "batch queries d_key"],
    keys: Float[Tensor, "batch memory d_key"],
    memory_is_token: Bool[Tensor, "batch memory"],
) -> Float[Tensor, "batch queries memory"]:
    """Returns the logarithms of one head's attention weights, in at least fp32."""
    wide = torch.promote_types(queries.dtype, torch.float32)
    scores = queries.to(wide) @ keys.to(wide).transpose(1, 2) * queries.shape[-1] ** -0.5
    visible = scores.masked_fill(~memory_is_token[:, None], -torch.inf)
    log_weights: Tensor = visible.log_softmax(dim=-1)
    return log_weights


def split_heads(
    fused: Float[Tensor, "batch length _"], num_heads: int, widths: tuple[int, ...]
) -> tuple[Float[Tensor, "batch heads length _"], ...]:
    """Returns views of a projection's parts by heads; `widths` are those of whole parts."""
    # The gradient of a split is a copy.
    parts = (fused,) if len(widths) == 1 else torch.split(fused, list(widths), dim=-1)
    return tuple(part.view(*part.shape[:2], num_heads, -1).transpose(1, 2) for part in parts)


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


ORDER = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)
"""PyTorch takes the first that is applicable: FlashAttention (arXiv 2307.08691) without a mask, the
memory-efficient kernel (arXiv 2112.05682) with one, plain products for any other width. cuDNN's,
which PyTorch may prefer on an H100 and later, is left out: it makes a plan for every new shape, and
every batch and every step of a search has a new shape."""


@contextmanager
def limit_attention_kernels(device: torch.device) -> Iterator[None]:
    """Limits attention on a GPU to the kernels of `ORDER` while the block runs."""
    if device.type != "cuda":
        yield
        return
    with sdpa_kernel(list(ORDER), set_priority=True):
        yield


_MIN_BLOCK = 32
"""Minimum queries of a block: smaller products cost more than they save."""
_MIN_GAIN = 2.0
"""Minimum factor of saved pairs that is worth the copies of keys and values."""

Heads = Float[Tensor, "batch heads length _"]
Bands = Float[Tensor, "_ heads _ _"]
"""Heads of blocks, or of the keys near each."""


def choose_block(length: int, window: int, *, is_causal: bool) -> int:
    """Returns the queries per block; 0 if one mask over the whole text is as fast."""
    block = max(_MIN_BLOCK, window)
    width = block + (1 if is_causal else 2) * window
    return block if length >= _MIN_GAIN * width else 0


def cut_into_bands(
    queries: Heads,
    keys: Heads,
    values: Heads,
    is_token: Bool[Tensor, "batch length"] | None,
    *,
    block: int,
    window: int,
    is_causal: bool,
) -> tuple[Bands, Bands, Bands, Bool[Tensor, "_ 1 _ _"]]:
    """Returns blocks of queries, the keys and values near each, and their visibility.

    Restricted attention (arXiv 1706.03762, section 4, table 1) to `window` neighbours on either
    side then costs O(r n d); a mask over all n * n pairs gives the same weights at the cost of full
    attention. Blocks are in the batch dimension, [batch * blocks, heads, block, head width], so
    that any kernel works block by block. `is_token` is False at padding, at the end; no token sees
    that.
    """
    batch, _, length, _ = queries.shape
    num_blocks = -(-length // block)
    after = 0 if is_causal else window
    filling = num_blocks * block - length
    width = window + block + after

    def spread(heads: Heads) -> Bands:
        padded = nn.functional.pad(heads, (0, 0, window, filling + after))
        # [batch, heads, blocks, head width, keys of a block]
        near = padded.unfold(2, width, block)
        return near.permute(0, 2, 1, 4, 3).flatten(0, 1)

    longer = nn.functional.pad(queries, (0, 0, 0, filling))
    blocks = longer.view(*longer.shape[:2], num_blocks, block, -1)
    if is_token is None:
        is_token = torch.ones(1, length, dtype=torch.bool, device=queries.device)
    near = nn.functional.pad(is_token, (window, filling + after)).unfold(1, width, block)
    positions = torch.arange(width, device=queries.device) - window
    ahead = positions - torch.arange(block, device=queries.device)[:, None]
    is_near = (ahead >= -window) & (ahead <= after)
    # Padding may have only padding near it; it sees itself, or it would become NaN.
    is_visible = (near[:, :, None] & is_near) | (ahead == 0)
    is_visible = is_visible.expand(batch, -1, -1, -1).flatten(0, 1)
    return (
        blocks.transpose(1, 2).flatten(0, 1),
        spread(keys),
        spread(values),
        is_visible[:, None],
    )


def join_bands(attended: Bands, *, batch: int, length: int) -> Bands:
    """Returns the attention of `cut_into_bands`' blocks, joined to texts again."""
    blocks = attended.view(batch, -1, *attended.shape[1:])
    return blocks.transpose(1, 2).flatten(2, 3)[:, :, :length]
