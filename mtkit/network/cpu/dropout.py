"""Dropout on a CPU, with masks of two bytes per number.

PyTorch's dropout spends most of its time drawing a double per number. Here each 64-bit draw yields
four 16-bit levels; the rate is rounded to a multiple of 2^-16. All randomness comes from torch's
generator.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int16
from torch import Tensor

_LEVELS = 1 << 16


def drop(inputs: Float[Tensor, "*shape"], rate: float) -> Float[Tensor, "*shape"]:
    """Returns `inputs` with each number zeroed at a rate, and the others scaled up."""
    mask = draw_mask(inputs.shape, rate, inputs.dtype)
    dropped: Tensor = _Drop.apply(inputs, mask, rate)  # type: ignore[no-untyped-call]
    return dropped


def drop_and_add(
    states: Float[Tensor, "*shape"], inputs: Float[Tensor, "*shape"], rate: float
) -> Float[Tensor, "*shape"]:
    """Returns `states` plus `inputs` with dropout, in one pass over them."""
    mask = draw_mask(inputs.shape, rate, inputs.dtype)
    summed: Tensor = _DropAndAdd.apply(states, inputs, mask, rate)  # type: ignore[no-untyped-call]
    return summed


def draw_mask(
    shape: torch.Size, rate: float, dtype: torch.dtype
) -> Int16[Tensor, "*shape"] | Float[Tensor, "*shape"]:
    """Returns a dropout mask with two bytes per number: 1 or 0 in 16-bit dtypes, else int16."""
    # int16 draws are uniform, and the lowest are dropped. torch's generator draws a seed, and
    # SFC64, which is twice as fast, draws the rest.
    seed = torch.empty(2, dtype=torch.int64).random_(0, None).tolist()
    num_words = (shape.numel() + 3) // 4
    words = torch.from_numpy(np.random.SFC64(seed).random_raw(num_words))
    levels = words.view(torch.int16)[: shape.numel()].view(shape)
    return _find_kept(levels, rate, dtype) if dtype.itemsize == levels.itemsize else levels


def drop_by(
    numbers: Float[Tensor, "*shape"],
    mask: Int16[Tensor, "*shape"] | Float[Tensor, "*shape"],
    rate: float,
) -> Float[Tensor, "*shape"]:
    """Returns numbers, or their gradient, with dropout by a mask of the same rate and dtype."""
    kept = _find_kept(mask, rate, numbers.dtype)
    # The mask is used again.
    return torch.mul(kept, numbers, out=None if kept is mask else kept).mul_(_scale_up(rate))


def _find_kept(mask: Tensor, rate: float, dtype: torch.dtype) -> Tensor:
    """Returns 1 for kept and 0 for dropped numbers."""
    # Not booleans, because PyTorch's products with those take five times as long.
    if mask.dtype != torch.int16:
        assert mask.dtype == dtype
        return mask
    kept = torch.empty(mask.shape, dtype=dtype)
    return torch.ge(mask, _num_dropped_levels(rate) - _LEVELS // 2, out=kept)


def _scale_up(rate: float) -> float:
    """Returns the factor that keeps the mean, at the rounded rate."""
    return _LEVELS / (_LEVELS - _num_dropped_levels(rate))


def _num_dropped_levels(rate: float) -> int:
    return min(round(rate * _LEVELS), _LEVELS - 1)


class _Drop(torch.autograd.Function):
    """inputs * kept * scale."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, mask: Tensor, rate: float) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.rate = rate
        return drop_by(inputs, mask, rate)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (mask,) = ctx.saved_tensors
        return drop_by(gradient, mask, ctx.rate), None, None


class _DropAndAdd(torch.autograd.Function):
    """states + inputs * kept * scale."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, inputs: Tensor, mask: Tensor, rate: float) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.rate = rate
        kept = _find_kept(mask, rate, inputs.dtype)
        return torch.addcmul(states, inputs, kept, value=_scale_up(rate))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (mask,) = ctx.saved_tensors
        return gradient, drop_by(gradient, mask, ctx.rate), None, None
