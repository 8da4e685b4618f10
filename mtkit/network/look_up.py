"""Rows of a table by their indices, with a gradient that keeps its digits."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


def look_up(
    table: Float[Tensor, "rows width"], indices: Int[Tensor, "*shape"]
) -> Float[Tensor, "*shape width"]:
    """Returns a table's rows at these indices, in fp32 at least.

    The gradient of a row is the sum over all of its uses: thousands, for a full stop or the first
    position. PyTorch's kernels for a bfloat16 table round that sum after every use, or after every
    few (on CUDA), until what is added no longer changes it. Here it is summed in fp32 and rounded
    once.
    """
    sum_type = torch.promote_types(table.dtype, torch.float32)
    if torch.is_grad_enabled() and table.requires_grad:
        return nn.functional.embedding(indices, table.to(sum_type))
    # Without a gradient only the rows that are used need a cast.
    return nn.functional.embedding(indices, table).to(sum_type)
