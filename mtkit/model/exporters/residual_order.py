"""The dimensions of a network in another order, in which it computes the same.

Positions with sines and cosines interleaved become those with all sines first: each vector that is
added to another has its dimensions reordered, and so have the rows or columns of whatever reads or
writes it. Heads are inside the maps, and stay as they are.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from mtkit.model.parameters import find_rows

_READS = ("query_key_value", "query", "key_value", "inner")
"""Linear maps whose inputs are such vectors."""
_WRITES = ("output",)
"""Linear maps whose outputs are such vectors."""


def sines_first(weights: Mapping[str, Tensor], d_model: int) -> dict[str, Tensor]:
    """Returns an encoder-decoder's weights for positions that have all sines first.

    Args:
        weights: By name, for positions with sines at even dimensions.
        d_model: Width of the vectors.
    """
    order = torch.cat((torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)))
    return {name: _reorder(name, weight, order) for name, weight in weights.items()}


def _reorder(name: str, weight: Tensor, order: Tensor) -> Tensor:
    owner, _, kind = name.rpartition(".")
    part = owner.rpartition(".")[2]
    if name == "output_bias":
        return weight
    if part.endswith("norm") or part in _WRITES:
        return weight[order]
    if part in _READS:
        return weight[:, order] if kind == "weight" else weight
    assert find_rows(name) is not None, name
    return weight[:, order]
