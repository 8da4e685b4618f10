"""Products in 8 bits, for inference only, on a CPU.

Weights are quantised once, per output: the largest of each becomes 127. Inputs are quantised per
row at each product, so that a sentence doesn't depend on the others in its batch. Sums are exact,
in int32; scales and bias follow in fp32. Embeddings, norms and softmax stay in fp32.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn

from mtkit.engine.library import choose_library
from mtkit.engine.linear import Linear

_ROWS_AT_ONCE = 64
WIDTH_MULTIPLE = 16
"""A batch's sentences are padded to a multiple of it before a network with 8-bit products. Softmax
and attention then add the same numbers in the same order in any batch: their vectors hold 8 or 16
numbers. Otherwise sums would differ in the last bit, and a number near a rounding edge would become
another integer (docs/log.md)."""
MAX_INTEGER = 127
_MAX_INPUTS = 2**24 // MAX_INTEGER**2
"""Maximum number of inputs whose sums are exact in fp32."""


class QuantizedLinear(nn.Module):
    """A linear map with a weight of 8-bit integers, without gradient.

    The C++ engine's product is used where it is compiled; `is_plain` is for tests.
    """

    def __init__(
        self,
        weight: Float[Tensor, "outputs inputs"],
        bias: Float[Tensor, " outputs"] | None = None,
        *,
        is_plain: bool = False,
    ) -> None:
        super().__init__()
        weight = weight.detach().float()
        bias = None if bias is None else bias.detach().float()
        self._product: _PlainProduct | Linear
        if choose_library() is None or is_plain:
            self._product = _PlainProduct(weight, bias)
        else:
            self._product = Linear(
                "int8",
                weight.contiguous().numpy(),
                None if bias is None else bias.contiguous().numpy(),
            )

    def forward(self, inputs: Float[Tensor, "*rows inputs"]) -> Float[Tensor, "*rows outputs"]:
        """Returns each row times the transposed weight, plus the bias."""
        assert not torch.is_grad_enabled()
        num_rows = math.prod(inputs.shape[:-1])
        rows = inputs.reshape(num_rows, inputs.shape[-1]).contiguous()
        if isinstance(self._product, Linear):
            applied = self._product.apply(rows.numpy(), torch.get_num_threads())
            outputs = torch.from_numpy(applied)
        else:
            outputs = self._product.apply(rows)
        return outputs.view(*inputs.shape[:-1], outputs.shape[1])


class _PlainProduct:
    """Products of integers in fp32, with exact sums: for CPUs without the engine."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        integers, self._scales = quantize_rows(weight)
        self._parts = [part.float() for part in torch.split(integers, _MAX_INPUTS, dim=1)]
        self._bias = bias

    def apply(self, rows: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        integers, scales = quantize_rows(rows)
        parts = torch.split(integers.float(), _MAX_INPUTS, dim=1)
        sums = [
            nn.functional.linear(part, weight).int()
            for part, weight in zip(parts, self._parts, strict=True)
        ]
        products = torch.stack(sums).sum(dim=0).float() * self._scales * scales[:, None]
        return products if self._bias is None else products + self._bias


def quantize_rows(
    matrix: Float[Tensor, "rows columns"],
) -> tuple[Int8[Tensor, "rows columns"], Float[Tensor, " rows"]]:
    """Returns 8-bit integers, and the scale of each row: its largest number over 127."""
    integers = torch.empty(matrix.shape, dtype=torch.int8, device=matrix.device)
    scales = torch.empty(len(matrix), device=matrix.device)
    # A few rows at a time: large temporary copies would fragment the memory.
    for first in range(0, len(matrix), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        largest = matrix[rows].abs().amax(dim=1) / MAX_INTEGER
        # A row of zeros has scale 1; NaN and infinity make the scale NaN, so that products show it.
        scales[rows] = torch.where(largest == 0, 1.0, largest + 0.0 * largest)
        units = (matrix[rows] / scales[rows, None]).round_()
        # A subnormal scale is rounded so much that integers would overflow.
        integers[rows] = units.clamp_(-MAX_INTEGER, MAX_INTEGER).nan_to_num_(0.0).to(torch.int8)
    return integers, scales


def is_quantized(network: nn.Module) -> bool:
    """Checks whether a network multiplies in 8 bits."""
    return any(isinstance(part, QuantizedLinear) for part in network.modules())


Fill = Callable[[nn.Module], None]
"""Sets the weights of a part, without those of its children."""


def keep_weights(_: nn.Module) -> None:
    """Keeps a part's weights."""


def quantize_linear_maps(network: nn.Module, fill: Fill = keep_weights) -> None:
    """Replaces a network's linear maps by quantised ones; `fill` sets each part before that."""
    # A network whose weights are on disk then needs the memory of only one linear map besides its
    # integers. So linear maps aren't listed here: they would stay in memory until the end.
    for part in [part for part in network.modules() if not isinstance(part, nn.Linear)]:
        fill(part)
        for name in [name for name, child in part.named_children() if isinstance(child, nn.Linear)]:
            child = part.get_submodule(name)
            assert isinstance(child, nn.Linear)
            fill(child)
            setattr(part, name, QuantizedLinear(child.weight, child.bias))
