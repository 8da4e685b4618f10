"""The greatest of many values, in an order that is the same every time."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

_BLOCK = 64
_MIN_BLOCKS = 32


def top_k(
    values: Float[Tensor, "batch candidates"], k: int
) -> tuple[Float[Tensor, "batch k"], Int[Tensor, "batch k"]]:
    """Returns the k greatest of each row and their places; of equals the one further left first.

    `torch.topk` alone leaves open which of equal values it picks and in which order.
    """
    # One more than asked for tells whether equals stand on both sides of the cut.
    picked, places = _pick(values, min(k + 1, values.shape[1]))
    cut_through_equals = (
        torch.zeros_like(picked[:, 0], dtype=torch.bool)
        if picked.shape[1] == k
        else (picked[:, k - 1] == picked[:, k]) & (picked[:, k] > -torch.inf)
    )
    places, order = places[:, :k].sort(dim=1)
    picked, order = picked[:, :k].gather(1, order).sort(dim=1, descending=True, stable=True)
    places = places.gather(1, order)
    if bool(cut_through_equals.any()):
        rows = values[cut_through_equals]
        first = _find_first(rows, k, picked[cut_through_equals][:, k - 1 :])
        exact, order = rows.gather(1, first).sort(dim=1, descending=True, stable=True)
        picked[cut_through_equals] = exact
        places[cut_through_equals] = first.gather(1, order)
    return picked, places


def _find_first(values: Tensor, k: int, least: Tensor) -> Tensor:
    """Returns the places, from left to right, of the k greatest of each row, `least` the last.

    Of several that equal the least the first are taken. A sort of all would do, and takes eighteen
    times as long; logits in bfloat16 have equals at the cut in one row of eighteen (docs/log.md).
    """
    # Not `values > least`: what is no number counts as the greatest, as in `torch.topk`.
    is_greater = ~(values <= least)
    is_least = values == least
    num_missing = k - is_greater.sum(dim=1, keepdim=True)
    is_taken = is_greater | (is_least & (is_least.cumsum(dim=1) <= num_missing))
    return is_taken.nonzero()[:, 1].view(-1, k)


def _pick(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Returns the k greatest of each row and their places, in any order among equals.

    `torch.topk` on a CPU sorts pairs of values and places. The greatest of each block of values is
    found much faster, and the k greatest values stand in the k blocks whose greatest are the
    greatest.
    """
    num_blocks = values.shape[1] // _BLOCK
    if num_blocks < max(_MIN_BLOCKS, 4 * k):
        picked, places = values.topk(k, dim=1)
        return picked, places
    whole = num_blocks * _BLOCK
    blocks_BNE = values[:, :whole].view(-1, num_blocks, _BLOCK)
    best_BK = blocks_BNE.amax(dim=2).topk(k, dim=1).indices
    inner = torch.arange(_BLOCK, device=values.device)
    places = (best_BK[:, :, None] * _BLOCK + inner).flatten(1)
    rest = torch.arange(whole, values.shape[1], device=values.device)
    places = torch.cat((places, rest.expand(len(values), -1)), dim=1)
    picked, order = values.gather(1, places).topk(k, dim=1)
    return picked, places.gather(1, order)
