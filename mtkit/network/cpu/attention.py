"""Attention over short sequences on a CPU, with a hand-written gradient.

Sentences have about twenty tokens. PyTorch's kernels are made for thousands: on a CPU their
backward pass loses to plain batched products, and PyTorch's own plain products spend more on copies
of heads and on checks than on arithmetic (docs/log.md).

Copies of heads between a row of tokens and padded grids are hand-written too: autograd would fill a
row with zeros for each grid's part of its gradient, and add them up.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mtkit.network.cpu.dropout import draw_mask, drop_by


def attend_on_cpu(
    queries: Float[Tensor, "batch heads queries d_key"],
    keys: Float[Tensor, "batch heads memory d_key"],
    values: Float[Tensor, "batch heads memory d_value"],
    *,
    is_visible: Bool[Tensor, "#batch 1 #queries memory"] | None,
    dropout: float,
) -> Float[Tensor, "batch heads queries d_value"]:
    """Returns softmax(Q K^T / sqrt(d_key)) V per head; if no key is visible, all count equally."""
    shape = torch.Size((*queries.shape[:3], keys.shape[2]))
    mask = draw_mask(shape, dropout, queries.dtype).flatten(0, 1) if dropout > 0.0 else None
    num_extra = max(find_softmax_width() - keys.shape[2], 0)
    if num_extra:
        keys, values, is_visible = _lengthen(keys, values, is_visible, num_extra)
        mask = None if mask is None else nn.functional.pad(mask, (0, num_extra))
    bias = None if is_visible is None else _to_bias(is_visible, shape[1], queries.dtype)
    if bias is not None and num_extra:
        bias[..., -num_extra:] = -torch.inf
    attended: Tensor = _CpuAttention.apply(  # type: ignore[no-untyped-call]
        queries.flatten(0, 1), keys.flatten(0, 1), values.flatten(0, 1), bias, mask, dropout
    )
    return attended.view(*shape[:3], -1)


def find_softmax_width() -> int:
    """Returns how many fp32 numbers PyTorch's softmax processes at once on this CPU."""
    # A shorter row takes up to seventeen times as long per number, also backward (docs/log.md).
    return 16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 8


def _lengthen(
    keys_BHMK: Tensor, values_BHMV: Tensor, is_visible: Tensor | None, num_extra: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns keys and values padded with entries that no query attends to."""
    longer_keys, longer_values = (
        nn.functional.pad(heads, (0, 0, 0, num_extra)) for heads in (keys_BHMK, values_BHMV)
    )
    if is_visible is None:
        is_visible = torch.ones(1, 1, 1, keys_BHMK.shape[2], dtype=torch.bool)
    return longer_keys, longer_values, nn.functional.pad(is_visible, (0, num_extra))


def _to_bias(is_visible: Tensor, num_heads: int, dtype: torch.dtype) -> Tensor:
    """Returns a bias on scores that broadcasts to [batch * heads, queries, memory]."""
    bias = torch.zeros(is_visible.shape, dtype=dtype)
    # Halved: with a score next to it the lowest fp16 number would be -inf.
    bias.masked_fill_(~is_visible, torch.finfo(dtype).min / 2)
    if is_visible.shape[0] == 1:
        return bias[0]
    return bias.expand(-1, num_heads, -1, -1).flatten(0, 1)


class _CpuAttention(torch.autograd.Function):
    """R rows (sentences times heads), Q queries, M memory, K d_key, V d_value."""

    @staticmethod
    def forward(  # noqa: PLR0917 (autograd passes them so)
        ctx: Any,
        queries_RQK: Tensor,
        keys_RMK: Tensor,
        values_RMV: Tensor,
        bias: Tensor | None,
        mask_RQM: Tensor | None,
        dropout: float,
    ) -> Tensor:
        scale = queries_RQK.shape[-1] ** -0.5
        keys_RKM = keys_RMK.transpose(1, 2)
        if bias is None:
            scores_RQM = torch.bmm(queries_RQK, keys_RKM).mul_(scale)
        else:
            scores_RQM = torch.baddbmm(bias, queries_RQK, keys_RKM, alpha=scale)
        # In bfloat16 a softmax over rows that aren't multiples of 32 takes longer than the casts.
        precise = torch.promote_types(scores_RQM.dtype, torch.float32)
        weights_RQM = torch.softmax(scores_RQM.to(precise), dim=-1).to(scores_RQM.dtype)
        ctx.save_for_backward(queries_RQK, keys_RMK, values_RMV, weights_RQM, mask_RQM)
        ctx.dropout = dropout
        return torch.bmm(_drop(weights_RQM, mask_RQM, dropout), values_RMV)

    @staticmethod
    def backward(ctx: Any, gradient_RQV: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        queries_RQK, keys_RMK, values_RMV, weights_RQM, mask_RQM = ctx.saved_tensors
        dropped_RQM = _drop(weights_RQM, mask_RQM, ctx.dropout)
        values_gradient = torch.bmm(dropped_RQM.transpose(1, 2), gradient_RQV)
        weights_gradient = torch.bmm(gradient_RQV, values_RMV.transpose(1, 2))
        weights_gradient = _drop(weights_gradient, mask_RQM, ctx.dropout)
        precise = torch.promote_types(weights_RQM.dtype, torch.float32)
        scores_gradient = torch._softmax_backward_data(
            weights_gradient.to(precise), weights_RQM.to(precise), -1, precise
        ).mul_(queries_RQK.shape[-1] ** -0.5)
        scores_gradient = scores_gradient.to(weights_RQM.dtype)
        queries_gradient = torch.bmm(scores_gradient, keys_RMK)
        keys_gradient = torch.bmm(scores_gradient.transpose(1, 2), queries_RQK)
        return queries_gradient, keys_gradient, values_gradient, None, None, None


def _drop(numbers: Tensor, mask: Tensor | None, rate: float) -> Tensor:
    return numbers if mask is None else drop_by(numbers, mask, rate)


def split_grids(
    fused: Float[Tensor, "*row width"],
    num_heads: int,
    widths: tuple[int, ...],
    shapes: tuple[tuple[int, int], ...],
) -> tuple[tuple[Float[Tensor, "_ heads _ _"], ...], ...]:
    """Returns each part's contiguous grids; `shapes` are sentences and length of each grid."""
    heads: tuple[Tensor, ...] = _SplitGrids.apply(fused, num_heads, widths, shapes)  # type: ignore[no-untyped-call]
    count = len(shapes)
    return tuple(heads[part * count : (part + 1) * count] for part in range(len(widths)))


def join_grids(
    heads: Sequence[Float[Tensor, "_ heads _ width"]], row_length: int
) -> Float[Tensor, "1 row all_heads"]:
    """Returns all grids' tokens in a row, heads side by side, with zeros at the row's end."""
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
