"""Sentences side by side in one row, without padding, and attention within each."""

from dataclasses import dataclass
from functools import cache
from inspect import signature

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

_FLASH_TYPES = (torch.bfloat16, torch.float16)
_FLASH_CAPABILITY = (8, 0)
"""Of NVIDIA's Ampere and later."""
_FLASH_WIDTH_STEP, _FLASH_MAX_WIDTH = 8, 256


@dataclass(frozen=True)
class Packing:
    """Where sentences stand in a row of tokens.

    Attributes:
        offsets: int32 [sentences + 1]: where each begins, and where the last one ends.
        places: int64 [tokens]: each token's place in its own sentence, from 0.
        longest: Tokens of the longest sentence.
    """

    offsets: Int[Tensor, " bounds"]
    places: Int[Tensor, " tokens"]
    longest: int


def can_pack(device: torch.device, dtype: torch.dtype, *, d_key: int, d_value: int) -> bool:
    """Returns whether a device has a kernel for attention within packed sentences.

    It is FlashAttention's (arXiv 2307.08691) for sequences of varying length. Without it the row
    would have to be compared with all of itself.
    """
    return (
        device.type == "cuda"
        and _has_kernel(device)
        and dtype in _FLASH_TYPES
        and d_key == d_value
        and d_key % _FLASH_WIDTH_STEP == 0
        and d_key <= _FLASH_MAX_WIDTH
    )


def attend_within(
    queries: Float[Tensor, "1 heads queries d_key"],
    keys: Float[Tensor, "1 heads memory d_key"],
    values: Float[Tensor, "1 heads memory d_value"],
    queries_at: Packing,
    memory_at: Packing,
    *,
    is_causal: bool = False,
    window: int | None = None,
) -> Float[Tensor, "1 heads queries d_value"]:
    """Returns softmax(Q K^T / sqrt(d_key)) V of each head, each sentence for itself.

    Args:
        queries: What asks.
        keys: What is compared with the queries.
        values: What is returned, weighted.
        queries_at: Where the queries' sentences stand.
        memory_at: Where the same sentences' keys stand.
        is_causal: A query sees no key behind its own place.
        window: A query sees no key further off than this; all where it isn't given.
    """
    if not can_pack(queries.device, queries.dtype, d_key=keys.shape[-1], d_value=values.shape[-1]):
        is_visible = _find_visible(queries_at, memory_at, is_causal=is_causal, window=window)
        return nn.functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=is_visible
        )
    reach = -1 if window is None else window
    from torch.nn.attention.varlen import varlen_attn  # noqa: PLC0415 (since torch 2.10)

    attended_QHV = varlen_attn(
        queries[0].transpose(0, 1),
        keys[0].transpose(0, 1),
        values[0].transpose(0, 1),
        queries_at.offsets,
        memory_at.offsets,
        queries_at.longest,
        memory_at.longest,
        window_size=(reach, 0 if is_causal else reach),
    )
    assert isinstance(attended_QHV, Tensor)
    attended: Tensor = attended_QHV.transpose(0, 1)[None]
    return attended


@cache
def _has_kernel(device: torch.device) -> bool:
    if not torch.cuda.is_available() or not torch.backends.cuda.is_flash_attention_available():
        return False
    if torch.version.hip or torch.cuda.get_device_capability(device) < _FLASH_CAPABILITY:
        return False
    try:
        from torch.nn.attention.varlen import varlen_attn  # noqa: PLC0415 (since torch 2.10)
    except ModuleNotFoundError:
        return False
    return "window_size" in signature(varlen_attn).parameters


def _find_visible(
    queries_at: Packing, memory_at: Packing, *, is_causal: bool, window: int | None
) -> Bool[Tensor, "queries memory"]:
    """Returns which keys of the whole row each query may attend to."""
    query_sentences, memory_sentences = (
        # A sentence begins wherever a place is 0.
        torch.cumsum(at.places == 0, dim=0)
        for at in (queries_at, memory_at)
    )
    is_visible = query_sentences[:, None] == memory_sentences
    ahead = memory_at.places - queries_at.places[:, None]
    if is_causal:
        is_visible &= ahead <= 0
    if window is not None:
        is_visible &= ahead.abs() <= window
    return is_visible
