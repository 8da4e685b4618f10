"""Runs mtkit with bfloat16's matrix products imitated by fp32 ones: same numbers, bearable speed.

On a CPU without instructions for bfloat16 its products are a hundred times slower than in fp32, too
slow to measure what bfloat16 does to quality. A matrix unit multiplies
bfloat16 numbers exactly, sums up in fp32 and rounds the result once; so does this, which turns its
operands into fp32, multiplies, and rounds. Only the order of sums differs. The speed means
nothing.

    python benchmarks/imitated_bfloat16.py train --recipe RECIPE --set training.precision=bf16
"""

import numpy as np
import torch
from torch import Tensor

from mtkit.cli.app import main


def imitate() -> torch.library.Library:
    """Replaces the CPU's matrix products while what is returned lives."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("mm", lambda a, b: _multiply(a, b).to(a.dtype), "CPU")
    library.impl("bmm", lambda a, b: _multiply(a, b).to(a.dtype), "CPU")
    library.impl("mm.out", lambda a, b, *, out: out.copy_(_multiply(a, b)), "CPU")
    library.impl("addmm", _multiply_and_add, "CPU")
    library.impl("baddbmm", _multiply_and_add, "CPU")
    return library


def _multiply(first: Tensor, second: Tensor) -> Tensor:
    """Returns the product in the numbers that a matrix unit sums up in."""
    if first.dtype == torch.bfloat16:
        first, second = first.float(), second.float()
    # numpy's product: torch's own would come here again.
    return torch.from_numpy(np.matmul(first.detach().numpy(), second.detach().numpy()))


def _multiply_and_add(
    added: Tensor, first: Tensor, second: Tensor, *, beta: float = 1.0, alpha: float = 1.0
) -> Tensor:
    product = _multiply(first, second)
    return product.mul_(alpha).add_(added, alpha=beta).to(first.dtype)


if __name__ == "__main__":
    library = imitate()
    main()
