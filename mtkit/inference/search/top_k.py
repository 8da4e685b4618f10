"""The largest of many values, in an order that is the same every time."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

_BLOCK = 64
_MIN_BLOCKS = 32


def top_k(
    values: Float[Tensor, "batch candidates"], k: int
) -> tuple[Float[Tensor, "batch k"], Int[Tensor, "batch k"]]:
    """Returns the k largest of each row and their indices; of equals the one further left first.

    `torch.topk` alone leaves open which of equal values it picks and in which order.
    """
    # One more than asked for shows whether equals stand on both sides of the cut.
    picked, indices = _pick(values, min(k + 1, values.shape[1]))
    cut_through_equals = (
        torch.zeros_like(picked[:, 0], dtype=torch.bool)
        if picked.shape[1] == k
        else (picked[:, k - 1] == picked[:, k]) & (picked[:, k] > -torch.inf)
    )
    indices, order = indices[:, :k].sort(dim=1)
    picked, order = picked[:, :k].gather(1, order).sort(dim=1, descending=True, stable=True)
    indices = indices.gather(1, order)
    if bool(cut_through_equals.any()):
        rows = values[cut_through_equals]
        first = _find_first(rows, k, picked[cut_through_equals][:, k - 1 :])
        exact, order = rows.gather(1, first).sort(dim=1, descending=True, stable=True)
        picked[cut_through_equals] = exact
        indices[cut_through_equals] = first.gather(1, order)
    return picked, indices


def _find_first(values: Tensor, k: int, threshold: Tensor) -> Tensor:
    """Returns the indices, from left to right, of the k largest of each row, `threshold` the last.

    Of several that equal the threshold the first are taken. A sort of all would do, and takes
    eighteen times as long; logits in bfloat16 have equals at the cut in one row of eighteen
    (docs/log.md).
    """
    # Not `values > threshold`: NaN counts as the largest, as in `torch.topk`.
    is_greater = ~(values <= threshold)
    is_equal = values == threshold
    num_missing = k - is_greater.sum(dim=1, keepdim=True)
    is_taken = is_greater | (is_equal & (is_equal.cumsum(dim=1) <= num_missing))
    return is_taken.nonzero()[:, 1].view(-1, k)


def _pick(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Returns the k largest of each row and their indices, in any order among equals.

    `torch.topk` on a CPU sorts pairs of values and indices. The largest of each block of values is
    found much faster, and the k largest values stand in the k blocks whose largest are the
    largest.
    """
    num_blocks = values.shape[1] // _BLOCK
    if num_blocks < max(_MIN_BLOCKS, 4 * k):
        picked, indices = values.topk(k, dim=1)
        return picked, indices
    whole = num_blocks * _BLOCK
    blocks_BNE = values[:, :whole].view(-1, num_blocks, _BLOCK)
    best_BK = blocks_BNE.amax(dim=2).topk(k, dim=1).indices
    inner = torch.arange(_BLOCK, device=values.device)
    indices = (best_BK[:, :, None] * _BLOCK + inner).flatten(1)
    rest = torch.arange(whole, values.shape[1], device=values.device)
    indices = torch.cat((indices, rest.expand(len(values), -1)), dim=1)
    picked, order = values.gather(1, indices).topk(k, dim=1)
    return picked, indices.gather(1, order)
