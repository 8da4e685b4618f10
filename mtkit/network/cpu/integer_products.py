"""Products of 8-bit integers, a class for each kernel that a processor may have.

Their sums are exact, in int32; scales and a bias follow in fp32. Which one a processor takes is
decided in quantized.py.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn

from mtkit.network.cpu.compiled import address, apply_linear, choose_library, new_linear
from mtkit.network.cpu.prepacked import pad_height

MAX_INTEGER = 127
_ROUNDER = 1.5 * 2**23
"""Added to a number of at most 2^22, it leaves that number's rounded value in the lowest bits."""
_TINY = 2.0**-100


class IntegerProduct(ABC):
    """A matrix of 8-bit integers, as a kernel reads it.

    Args:
        weight: The integers.
        scales: What a unit of each output is worth.
        bias: A number for each output; none where it isn't given.

    Attributes:
        name: Name of the kernel, for people.
    """

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
        """Keeps the matrix as the kernel reads it."""

    @abstractmethod
    def multiply(self, rows: Tensor) -> Float[Tensor, "rows outputs"]:
        """Returns the sums of products, times each output's scale, in fp32."""

    def transform(self, rows: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """Returns each row, quantised, times the matrix, transposed, plus the bias."""
        num_rows = len(rows)
        largest = torch.maximum(rows.amax(1, keepdim=True), rows.amin(1, keepdim=True).neg_())
        # Infinity becomes NaN.
        largest = torch.addcmul(largest, largest, torch.zeros_like(largest))
        # Of a row so small that the reciprocal would be infinite, every number is enlarged first.
        size, is_tiny = largest, largest < _TINY
        if bool(is_tiny.any()):
            size, rows = (torch.where(is_tiny, each / _TINY, each) for each in (size, rows))
        # A row of zeros or with NaN becomes NaN here, and zeros or NaN by its scale.
        rounded = torch.addcmul(self._rounder, rows, size.reciprocal(), value=MAX_INTEGER)
        # What stands in the rows beyond is multiplied, too, and left out.
        integers = rows.new_empty((pad_height(num_rows), rows.shape[1]), dtype=torch.int8)
        integers[:num_rows] = rounded.view(torch.int32)
        product = self.multiply(integers)[:num_rows]
        if self._bias is None:
            return product.mul_(largest)
        return torch.addcmul(self._bias, product, largest, out=product)


class CompiledProduct(IntegerProduct):
    """mtkit's own kernel: it quantises, multiplies and scales at once, with exact sums.

    Attributes:
        handle: The matrix, for what else is compiled.
    """

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
        """Returns each row, quantised, times the matrix, transposed, plus the bias."""
        return apply_linear(self.handle, rows, self._num_outputs)


class PlainProduct(IntegerProduct):
    """Products in fp32 of whole numbers, with exact sums: for processors without a kernel."""

    name = "fp32"
    _MAX_INPUTS = 2**24 // MAX_INTEGER**2
    """Inputs whose sums fp32 holds exactly."""

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
