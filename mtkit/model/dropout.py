"""Dropout (Srivastava et al. 2014), quick on a CPU too."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int16
from torch import Tensor, nn

_LEVELS = 1 << 16


class Dropout(nn.Module):
    """Zeroes each number with probability `rate` while training, and scales up the others.

    PyTorch's own dropout spends most of its time on a CPU drawing a double per number. Here four
    16-bit levels come out of each 64-bit draw; the rate is rounded to a multiple of 2^-16. All
    chance comes from torch's generator.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Returns `inputs` with numbers dropped; in evaluation, `inputs` itself."""
        if not self.training:
            return inputs
        dropped: Tensor = drop(inputs, self.rate)
        return dropped

    def add(
        self, states: Float[Tensor, "*shape"], inputs: Float[Tensor, "*shape"]
    ) -> Float[Tensor, "*shape"]:
        """Returns `states` plus `inputs` with numbers dropped, in one pass over them."""
        if not self.training:
            return states + inputs
        if self.rate == 0.0 or inputs.device.type != "cpu":
            return states + drop(inputs, self.rate)
        summed: Tensor = _DropAndAdd.apply(  # type: ignore[no-untyped-call]
            states, inputs, draw_levels(inputs.shape), self.rate
        )
        return summed

    def extra_repr(self) -> str:
        """Returns the rate, for printing a model."""
        return f"rate={self.rate}"


def drop(inputs: Float[Tensor, "*shape"], rate: float) -> Float[Tensor, "*shape"]:
    """Returns `inputs` with each number zeroed at a rate, and the others scaled up."""
    if rate == 0.0:
        return inputs
    if inputs.device.type != "cpu":
        return nn.functional.dropout(inputs, rate)
    dropped: Tensor = _Drop.apply(inputs, draw_levels(inputs.shape), rate)  # type: ignore[no-untyped-call]
    return dropped


def draw_levels(shape: torch.Size) -> Int16[Tensor, "*shape"]:
    """Returns numbers drawn evenly from all of int16, on the CPU.

    torch's generator draws a seed, and SFC64, which takes half its time, the rest.
    """
    seed = torch.empty(2, dtype=torch.int64).random_(0, None).tolist()
    num_words = (shape.numel() + 3) // 4
    words = torch.from_numpy(np.random.SFC64(seed).random_raw(num_words))
    return words.view(torch.int16)[: shape.numel()].view(shape)


def find_kept(
    levels: Int16[Tensor, "*shape"], rate: float, dtype: torch.dtype
) -> tuple[Float[Tensor, "*shape"], float]:
    """Returns 1 for what is kept and 0 for what is dropped, and what to scale it up by.

    Numbers, since PyTorch's products with booleans take five times as long.
    """
    num_dropped_levels = min(round(rate * _LEVELS), _LEVELS - 1)
    kept = torch.empty(levels.shape, dtype=dtype)
    torch.ge(levels, num_dropped_levels - _LEVELS // 2, out=kept)
    return kept, _LEVELS / (_LEVELS - num_dropped_levels)


class _Drop(torch.autograd.Function):
    """inputs * kept * scale, that keeps two bytes per number for the way back."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, levels: Tensor, rate: float) -> Tensor:
        ctx.save_for_backward(levels)
        ctx.rate = rate
        kept, scale = find_kept(levels, rate, inputs.dtype)
        return kept.mul_(inputs).mul_(scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (levels,) = ctx.saved_tensors
        kept, scale = find_kept(levels, ctx.rate, gradient.dtype)
        return kept.mul_(gradient).mul_(scale), None, None


class _DropAndAdd(torch.autograd.Function):
    """states + inputs * kept * scale."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, inputs: Tensor, levels: Tensor, rate: float) -> Tensor:
        ctx.save_for_backward(levels)
        ctx.rate = rate
        kept, scale = find_kept(levels, rate, inputs.dtype)
        return torch.addcmul(states, inputs, kept, value=scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (levels,) = ctx.saved_tensors
        kept, scale = find_kept(levels, ctx.rate, gradient.dtype)
        return gradient, kept.mul_(gradient).mul_(scale), None, None
