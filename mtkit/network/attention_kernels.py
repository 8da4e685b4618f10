"""Which kernels compute attention on a GPU."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from mtkit.network.scaled_dot_product import AttentionOptions

ORDER = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)
"""The first that can do what is asked is taken: FlashAttention (arXiv 2307.08691) without a mask,
the memory-efficient kernel (arXiv 2112.05682) with one, plain products for any other width.

cuDNN's, which PyTorch may take first on an H100 and later, is left out: it makes a plan for every
new shape, and sentences come in a new shape with every batch and at every step of a search.
"""
_FLASH_TYPES = (torch.bfloat16, torch.float16)
_FLASH_CAPABILITY = (8, 0)
"""Of NVIDIA's Ampere and later."""
_FLASH_WIDTH_STEP, _FLASH_MAX_WIDTH = 8, 256


@contextmanager
def limit_attention_kernels(device: torch.device) -> Iterator[None]:
    """Limits attention on a GPU to the kernels of `ORDER`; changes nothing on other devices.

    Another model in the same process has its own kernels again when the block ends.
    """
    if device.type != "cuda":
        yield
        return
    with sdpa_kernel(list(ORDER), set_priority=True):
        yield


def can_pack(device: torch.device, dtype: torch.dtype, *, d_key: int, d_value: int) -> bool:
    """Checks that a device has a kernel for attention within packed sentences.

    It is FlashAttention's (arXiv 2307.08691) for sequences of varying length. Without it the row
    would have to be compared with all of itself.
    """
    return (
        device.type == "cuda"
        and _has_packed_kernel(device)
        and dtype in _FLASH_TYPES
        and d_key == d_value
        and d_key % _FLASH_WIDTH_STEP == 0
        and d_key <= _FLASH_MAX_WIDTH
    )


def attend_packed(
    queries: Float[Tensor, "1 heads queries d_key"],
    keys: Float[Tensor, "1 heads memory d_key"],
    values: Float[Tensor, "1 heads memory d_key"],
    options: AttentionOptions,
    *,
    offsets: tuple[Int[Tensor, " bounds"], Int[Tensor, " bounds"]],
    max_lengths: tuple[int, int],
) -> Float[Tensor, "1 heads queries d_key"]:
    """Returns the attention of packed sentences, each within itself, where `can_pack` says so.

    `offsets`, in int32, say where each sentence's queries begin and the last one's end, and its
    keys; `max_lengths` are the most queries and keys of a sentence. No weights are dropped.
    """
    reach = -1 if options.window is None else options.window
    # Not by torch.nn.attention.varlen, whose checks in Python take longer than the kernel.
    attended_QHV: Tensor = torch.ops.aten._flash_attention_forward(
        *(heads[0].transpose(0, 1) for heads in (queries, keys, values)),
        *offsets,
        *max_lengths,
        0.0,
        options.is_causal and options.window is None,
        return_debug_mask=False,
        window_size_left=reach,
        window_size_right=0 if options.is_causal else reach,
    )[0]
    return attended_QHV.transpose(0, 1)[None]


@cache
def _has_packed_kernel(device: torch.device) -> bool:
    if not torch.cuda.is_available() or not torch.backends.cuda.is_flash_attention_available():
        return False
    return not torch.version.hip and (torch.cuda.get_device_capability(device) >= _FLASH_CAPABILITY)
