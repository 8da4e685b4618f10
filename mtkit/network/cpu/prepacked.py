"""Products with prepacked weights, for inference only, on a CPU.

PyTorch multiplies in fp32 by MKL, which uses only AVX2 on CPUs that Intel didn't make. oneDNN uses
all instructions, about twice as fast with AVX512, and lays a matrix out once for its kernels
(docs/log.md). Results differ by rounding.
"""

import math

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn

_USUAL_ROWS = 256
"""Rows that the layout is chosen for: a step's sentences times hypotheses."""
_ROW_MULTIPLES = ((256, 64), (32, 32), (0, 8))
"""Pairs of a minimum number of rows and the multiple that it is padded to."""


class PrepackedLinear(nn.Module):
    """A linear map whose weight is in oneDNN's own layout."""

    def __init__(
        self, weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"] | None = None
    ) -> None:
        super().__init__()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _USUAL_ROWS)
        self._bias = None if bias is None else bias.detach()

    def forward(self, inputs: Float[Tensor, "*rows inputs"]) -> Float[Tensor, "*rows outputs"]:
        """Returns each row times the transposed weight, plus the bias, without gradient."""
        assert not torch.is_grad_enabled()
        num_rows = math.prod(inputs.shape[:-1])
        rows = pad_rows(inputs.reshape(num_rows, inputs.shape[-1]))
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            rows, self._weight, self._bias, "none", [], ""
        )
        return product[:num_rows].view(*inputs.shape[:-1], product.shape[1])


def pad_rows(rows: Num[Tensor, "rows width"]) -> Num[Tensor, "more_rows width"]:
    """Returns a matrix padded with rows of zeros to a usual height."""
    # oneDNN builds a kernel per number of rows and keeps it, with a megabyte or more. So few such
    # numbers are used.
    num_zeros = pad_height(len(rows)) - len(rows)
    return nn.functional.pad(rows, (0, 0, 0, num_zeros)) if num_zeros else rows


def pad_height(num_rows: int) -> int:
    """Returns the usual number of rows that a matrix of `num_rows` is padded to."""
    multiple = next(multiple for min_rows, multiple in _ROW_MULTIPLES if num_rows >= min_rows)
    return num_rows + -num_rows % multiple


def gains_by_prepacking(device: torch.device) -> bool:
    """Checks that prepacked weights are faster on a device."""
    # They are on AMD CPUs with AVX512. On Intel's, where MKL uses it too, this wasn't measured.
    return (
        device.type == "cpu"
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        # torch has these under private names.
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def prepack_linear_maps(network: nn.Module) -> None:
    """Replaces a network's linear maps by prepacked ones, and drops their weights."""
    for part in list(network.modules()):
        for name, child in list(part.named_children()):
            if isinstance(child, nn.Linear):
                setattr(part, name, PrepackedLinear(child.weight, child.bias))
