"""Dropout (Srivastava et al. 2014), with a quick source of chance on a CPU."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

_LEVELS = 1 << 16


class Dropout(nn.Module):
    """Zeroes each number with probability `rate` while training, and scales up the others.

    PyTorch's own dropout spends most of its time on a CPU drawing a double per number. Here four
    16-bit levels come out of each 64-bit draw, a third of the time in all; the rate is rounded to a
    multiple of 2^-16.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Returns `inputs` with numbers dropped; in evaluation, `inputs` itself."""
        if not self.training or self.rate == 0.0:
            return inputs
        if inputs.device.type != "cpu":
            return nn.functional.dropout(inputs, self.rate)
        num_dropped_levels = min(round(self.rate * _LEVELS), _LEVELS - 1)
        is_kept = _draw_levels(inputs.shape) >= num_dropped_levels - _LEVELS // 2
        scale = _LEVELS / (_LEVELS - num_dropped_levels)
        masked: Tensor = _MaskAndScale.apply(inputs, is_kept, scale)  # type: ignore[no-untyped-call]
        return masked

    def extra_repr(self) -> str:
        """Returns the rate, for printing a model."""
        return f"rate={self.rate}"


def _draw_levels(shape: torch.Size) -> Tensor:
    """Returns int16 numbers drawn evenly from all of their range."""
    num_words = (shape.numel() + 3) // 4
    words = torch.empty(num_words, dtype=torch.int64).random_(-(2**63), None)
    return words.view(torch.int16)[: shape.numel()].view(shape)


class _MaskAndScale(torch.autograd.Function):
    """inputs * is_kept * scale, that keeps one byte per number for the way back."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Float[Tensor, "*shape"], is_kept: Bool[Tensor, "*shape"], scale: float
    ) -> Float[Tensor, "*shape"]:
        ctx.save_for_backward(is_kept)
        ctx.scale = scale
        return torch.mul(inputs, is_kept).mul_(scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (is_kept,) = ctx.saved_tensors
        return torch.mul(gradient, is_kept).mul_(ctx.scale), None, None
