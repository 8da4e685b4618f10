"""Products in 8 bits, for inference only, on a CPU.

Weights are quantised once, per output: the largest of each becomes 127. Inputs are quantised per
row at each product, so that a sentence doesn't depend on the others in its batch. Sums are exact,
in int32; scales and bias follow in fp32. Embeddings, norms and softmax stay in fp32. Each kernel is
a class.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn

from mtkit.network.cpu.compiled import (
    address,
    apply_linear,
    can_multiply,
    choose_library,
    has_kernels,
    has_vnni,
    new_linear,
)
from mtkit.network.cpu.prepacked import pad_height
from mtkit.recipe.precision import Precision

_ROWS_AT_ONCE = 64


WIDTH_MULTIPLE = 16
"""A batch's sentences are padded to a multiple of it before a network with 8-bit products. Softmax
and attention then add the same numbers in the same order in any batch: their vectors hold 8 or 16
numbers. Otherwise sums would differ in the last bit, and a number near a rounding edge would become
another integer (docs/log.md)."""


MAX_INTEGER = 127
_ROUNDER = 1.5 * 2**23
"""Added to a number of at most 2^22, it puts the rounded value in the lowest bits."""
_TINY = 2.0**-100


class IntegerProduct(ABC):
    """A matrix of 8-bit integers for a kernel; `scales` has the value of each output's unit."""

    name: ClassVar[str]

    def __init__(
        self,
        weight: Int8[Tensor, "outputs inputs"],
        scales: Float[Tensor, " outputs"],
        bias: Float[Tensor, " outputs"] | None = None,
    ) -> None:
        self._bias = bias
        self._rounder = torch.full((weight.shape[1],), _ROUNDER)
        self._lay_out(weight, scales)

    @abstractmethod
    def _lay_out(self, weight: Tensor, scales: Tensor) -> None:
        """Keeps the matrix in the kernel's layout."""

    @abstractmethod
    def multiply(self, rows: Tensor) -> Float[Tensor, "rows outputs"]:
        """Returns the sums of products, times each output's scale, in fp32."""

    def transform(self, rows: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """Returns each row, quantised, times the transposed matrix, plus the bias."""
        num_rows = len(rows)
        largest = torch.maximum(rows.amax(1, keepdim=True), rows.amin(1, keepdim=True).neg_())
        # Infinity becomes NaN.
        largest = torch.addcmul(largest, largest, torch.zeros_like(largest))
        # If a row's reciprocal would be infinite, all its numbers are scaled up first.
        size, is_tiny = largest, largest < _TINY
        if bool(is_tiny.any()):
            size, rows = (torch.where(is_tiny, each / _TINY, each) for each in (size, rows))
        # A row of zeros or with NaN becomes NaN here, and zeros or NaN by its scale.
        rounded = torch.addcmul(self._rounder, rows, size.reciprocal(), value=MAX_INTEGER)
        # The rows beyond are multiplied too, and dropped.
        integers = rows.new_empty((pad_height(num_rows), rows.shape[1]), dtype=torch.int8)
        integers[:num_rows] = rounded.view(torch.int32)
        product = self.multiply(integers)[:num_rows]
        if self._bias is None:
            return product.mul_(largest)
        return torch.addcmul(self._bias, product, largest, out=product)


class CompiledProduct(IntegerProduct):
    """mtkit's kernel: it quantises, multiplies and scales at once, with exact sums."""

    name = "compiled"

    def _lay_out(self, weight: Tensor, scales: Tensor) -> None:
        handle = new_linear("int8", weight, self._bias, scales)
        if handle is None:
            raise RuntimeError("no compiled products in int8 here, or sums might overflow")
        self.handle = handle
        self._num_outputs = len(weight)

    def multiply(self, rows: Tensor) -> Tensor:
        """Returns the sums of products, times each output's scale."""
        library = choose_library()
        assert library is not None, "it made the map"
        outputs = torch.empty(len(rows), self._num_outputs)
        library.mtkit_multiply(
            self.handle.pointer,
            address(rows.contiguous(), torch.int8),
            len(rows),
            address(outputs),
            torch.get_num_threads(),
        )
        return outputs

    def transform(self, rows: Tensor) -> Tensor:
        """Returns each row, quantised, times the transposed matrix, plus the bias."""
        return apply_linear(self.handle, rows, self._num_outputs)


class PlainProduct(IntegerProduct):
    """Products of integers in fp32, with exact sums: for CPUs without a kernel."""

    name = "fp32"
    _MAX_INPUTS = 2**24 // MAX_INTEGER**2
    """Maximum number of inputs whose sums are exact in fp32."""

    def _lay_out(self, weight: Tensor, scales: Tensor) -> None:
        self._parts = [part.float() for part in torch.split(weight, self._MAX_INPUTS, dim=1)]
        self._scales = scales

    def multiply(self, rows: Tensor) -> Tensor:
        """Returns the sums of products, times each output's scale."""
        parts = torch.split(rows.float(), self._MAX_INPUTS, dim=1)
        sums = [
            nn.functional.linear(part, weight)
            for part, weight in zip(parts, self._parts, strict=True)
        ]
        if len(sums) == 1:
            return sums[0].mul_(self._scales)
        return torch.stack([each.int() for each in sums]).sum(dim=0).float().mul_(self._scales)


class QuantizedLinear(nn.Module):
    """A linear map with a weight of 8-bit integers, without gradient; `kind` depends on the CPU."""

    def __init__(
        self,
        weight: Float[Tensor, "outputs inputs"],
        bias: Float[Tensor, " outputs"] | None = None,
        *,
        kind: type[IntegerProduct] | None = None,
    ) -> None:
        super().__init__()
        quantized, scales = quantize_rows(weight.detach().float())
        # A row's scale is the value of its largest number, which is 127 units.
        self.product = (kind or choose_kernel())(
            quantized, scales / MAX_INTEGER, None if bias is None else bias.detach().float()
        )

    def forward(self, inputs: Float[Tensor, "*rows inputs"]) -> Float[Tensor, "*rows outputs"]:
        """Returns each row times the transposed weight, plus the bias."""
        assert not torch.is_grad_enabled()
        num_rows = math.prod(inputs.shape[:-1])
        outputs = self.product.transform(inputs.reshape(num_rows, inputs.shape[-1]))
        return outputs.view(*inputs.shape[:-1], outputs.shape[1])


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
        # Only zeros have no scale: NaN stays NaN, infinity becomes it, so that products show it.
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


def choose_kernel() -> type[IntegerProduct]:
    """Returns the compiled kernel if this CPU has one, else products in fp32."""
    # It depends on the CPU alone, never on a trial, so that results are reproducible.
    return CompiledProduct if has_kernels() else PlainProduct


def gains_by_compiling(precision: Precision) -> bool:
    """Checks that compiled passes in this precision are faster than PyTorch's here."""
    # They are where that was measured (docs/performance.md). AMX, which they don't use, multiplies
    # bf16 many times as fast.
    return has_kernels() and can_multiply(precision) and not (precision == "bf16" and _has_amx())


def gains_by_quantizing(precision: Precision) -> bool:
    """Checks that this CPU is faster in 8 bits than in a precision (docs/performance.md)."""
    return has_kernels() and (precision == "fp32" or is_compiled_fastest())


def is_compiled_fastest() -> bool:
    """Checks that no other kernel is as fast as the compiled ones; with AMX another may be."""
    return has_vnni() and not _has_amx()


def _has_amx() -> bool:
    """Checks whether the CPU has AMX, according to PyTorch."""
    return hasattr(torch.cpu, "_is_amx_tile_supported") and torch.cpu._is_amx_tile_supported()
