"""Copies of heads between a row of tokens and padded grids, with the gradients by hand.

Autograd would fill a row with zeros for each grid's part of its gradient, and add them up.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


def split_grids(
    fused: Float[Tensor, "*row width"],
    num_heads: int,
    widths: tuple[int, ...],
    shapes: tuple[tuple[int, int], ...],
) -> tuple[tuple[Float[Tensor, "_ heads _ _"], ...], ...]:
    """Returns each part's grids [batch, heads, length, width], as products read them fastest.

    `widths` are those of whole parts; `shapes` sentences and length of each grid.
    """
    heads: tuple[Tensor, ...] = _SplitGrids.apply(fused, num_heads, widths, shapes)  # type: ignore[no-untyped-call]
    count = len(shapes)
    return tuple(heads[part * count : (part + 1) * count] for part in range(len(widths)))


def join_grids(
    heads: Sequence[Float[Tensor, "_ heads _ width"]], row_length: int
) -> Float[Tensor, "1 row all_heads"]:
    """Returns all grids' tokens in a row, each one's heads side by side; zeros at the row's end."""
    joined: Tensor = _JoinGrids.apply(row_length, *heads)  # type: ignore[no-untyped-call]
    return joined


def _view_grids(rows_ND: Tensor, num_heads: int, shapes: Sequence[tuple[int, int]]) -> list[Tensor]:
    """Returns views [batch, heads, length, width] of a row's grids."""
    views = []
    first = 0
    for count, length in shapes:
        grid = rows_ND[first : first + count * length]
        views.append(grid.view(count, length, num_heads, -1).transpose(1, 2))
        first += count * length
    return views


class _SplitGrids(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        fused: Tensor,
        num_heads: int,
        widths: tuple[int, ...],
        shapes: tuple[tuple[int, int], ...],
    ) -> tuple[Tensor, ...]:
        ctx.shape, ctx.num_heads, ctx.widths, ctx.shapes = fused.shape, num_heads, widths, shapes
        return tuple(
            view.contiguous()
            for part in torch.split(fused.flatten(0, -2), list(widths), dim=-1)
            for view in _view_grids(part, num_heads, shapes)
        )

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        fused = gradients[0].new_empty(ctx.shape)
        rows = fused.flatten(0, -2)
        rows[sum(count * length for count, length in ctx.shapes) :] = 0
        views = [
            view
            for part in torch.split(rows, list(ctx.widths), dim=-1)
            for view in _view_grids(part, ctx.num_heads, ctx.shapes)
        ]
        for view, gradient in zip(views, gradients, strict=True):
            view.copy_(gradient)
        return fused, None, None, None


class _JoinGrids(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, row_length: int, *heads: Tensor) -> Tensor:
        num_heads, width = heads[0].shape[1], heads[0].shape[3]
        ctx.num_heads = num_heads
        ctx.shapes = [(grid.shape[0], grid.shape[2]) for grid in heads]
        joined = heads[0].new_empty(1, row_length, num_heads * width)
        rows = joined[0]
        rows[sum(count * length for count, length in ctx.shapes) :] = 0
        for view, grid in zip(_view_grids(rows, num_heads, ctx.shapes), heads, strict=True):
            view.copy_(grid)
        return joined

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        views = _view_grids(gradient[0], ctx.num_heads, ctx.shapes)
        return None, *(view.contiguous() for view in views)
