"""Products in 8 bits, for inference only, on a processor.

Weights are quantised once, by output: the largest of each becomes 127. Inputs are quantised by row
at each product, so that a sentence doesn't depend on those beside it. Sums are exact, in int32; the
scales and the bias follow in fp32. Embeddings, norms and softmax stay in fp32.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import ClassVar

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn

from mtkit.network.cpu.compiled import (
    CompiledLinear,
    address,
    apply_linear,
    can_multiply,
    choose_library,
    has_vnni,
    new_linear,
)
from mtkit.network.cpu.prepacked import PrepackedLinear, gains_by_prepacking, pad_height
from mtkit.recipe.precision import Precision

MAX_INTEGER = 127
_ROUNDER = 1.5 * 2**23
"""Added to a number of at most 2^22, it leaves that number's rounded value in the lowest bits."""
_UINT8_OFFSET = 128
_ROWS_AT_ONCE = 64


WIDTH_MULTIPLE = 16
"""Sentences of a batch are padded to a multiple of it, before a network with 8-bit products reads
them.

A softmax and products of attention then add up the same numbers in the same order, whatever is
beside a sentence: their vectors hold 8 or 16 numbers. Else sums would differ in the last bit, and a
number on an edge of rounding would become another integer (docs/log.md)."""


class IntegerProduct(ABC):
    """A matrix of 8-bit integers, as a kernel reads it.

    Args:
        weight: The integers.
        scales: What a unit of each output is worth.
        bias: A number for each output; none where it isn't given.

    Attributes:
        name: Name of the kernel, for people.
        dtype: Type of the rows that it is multiplied by: int8, or uint8 with 128 for 0.
    """

    name: ClassVar[str]
    dtype: ClassVar[torch.dtype]

    def __init__(
        self,
        weight: Int8[Tensor, "outputs inputs"],
        scales: Float[Tensor, " outputs"],
        bias: Float[Tensor, " outputs"] | None = None,
    ) -> None:
        self._bias = bias
        offset = _UINT8_OFFSET if self.dtype == torch.uint8 else 0
        self._rounder = torch.full((weight.shape[1],), _ROUNDER + offset)
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
        # A row of zeros, or with an infinity, becomes NaN here, and zeros or NaN by its scale.
        rounded = torch.addcmul(self._rounder, rows, largest.reciprocal(), value=MAX_INTEGER)
        # What stands in the rows beyond is multiplied, too, and left out.
        integers = rows.new_empty((pad_height(num_rows), rows.shape[1]), dtype=self.dtype)
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
    dtype = torch.int8

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


class OneDnnProduct(IntegerProduct):
    """oneDNN's kernel, which lays the matrix out once and scales the sums itself.

    It adds up products with rows of 0 to 255, and takes what is too much off at the end. With AMX
    that happens in fp32, and sums of many inputs are rounded.
    """

    name = "oneDNN"
    dtype = torch.uint8
    _ZERO: ClassVar[int] = _UINT8_OFFSET

    def _lay_out(self, weight: Tensor, scales: Tensor) -> None:
        self._weight = torch.ops.onednn.qlinear_prepack(weight, None)
        self._scales = scales
        self._zeros = torch.zeros(len(scales), dtype=torch.int64)

    def multiply(self, rows: Tensor) -> Tensor:
        """Returns the sums of products, times each output's scale."""
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            rows,
            1.0,
            self._ZERO,
            self._weight,
            self._scales,
            self._zeros,
            None,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "",
        )
        return product


class SignedOneDnnProduct(OneDnnProduct):
    """The same with rows of -127 to 127: exact with AMX, and thousands of times slower without."""

    name = "oneDNN, signed"
    dtype = torch.int8
    _ZERO: ClassVar[int] = 0


class IntMmProduct(IntegerProduct):
    """PyTorch's `_int_mm`, whose sums are scaled afterwards."""

    name = "_int_mm"
    dtype = torch.int8

    def _lay_out(self, weight: Tensor, scales: Tensor) -> None:
        self._columns = weight.t()
        if weight.shape[1] == 1:
            # With the strides of a transposed matrix nothing is multiplied at all.
            self._columns = self._columns.clone(memory_format=torch.contiguous_format)
        self._scales = scales

    def multiply(self, rows: Tensor) -> Tensor:
        """Returns the sums of products, times each output's scale."""
        return torch._int_mm(rows, self._columns).float().mul_(self._scales)


class PlainProduct(IntegerProduct):
    """Products in fp32 of whole numbers, with exact sums: for processors without a kernel."""

    name = "fp32"
    dtype = torch.int8
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


class QuantizedLinear(nn.Module):
    """A linear map with a weight of 8-bit integers; no gradient flows back.

    Args:
        weight: The matrix, on a processor.
        bias: A number for each output; none where it isn't given.
        kind: What multiplies; the quickest on this processor if not given.
    """

    def __init__(
        self,
        weight: Float[Tensor, "outputs inputs"],
        bias: Float[Tensor, " outputs"] | None = None,
        *,
        kind: type[IntegerProduct] | None = None,
    ) -> None:
        super().__init__()
        quantized, scales = quantize_rows(weight.detach().float())
        # A row's own scale is what its largest number is worth: 127 of its integers.
        self.product = (kind or choose_kernel())(
            quantized, scales / MAX_INTEGER, None if bias is None else bias.detach().float()
        )

    def forward(self, inputs: Float[Tensor, "*rows inputs"]) -> Float[Tensor, "*rows outputs"]:
        """Returns each row times the weight, transposed, plus the bias."""
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
    # A few rows at a time: copies as large as matrices would leave holes between what is kept.
    for first in range(0, len(matrix), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        largest = matrix[rows].abs().amax(dim=1) / MAX_INTEGER
        scales[rows] = torch.where(largest > 0, largest, 1.0)
        integers[rows] = (matrix[rows] / scales[rows, None]).round_().to(torch.int8)
    return integers, scales


def is_quantized(network: nn.Module) -> bool:
    """Checks whether a network multiplies in 8 bits."""
    return any(isinstance(part, QuantizedLinear) for part in network.modules())


Fill = Callable[[nn.Module], None]
"""Sets the weights of a part, not those of the parts within it."""


def keep_weights(_: nn.Module) -> None:
    """Leaves a part's weights as they are."""


def quantize_linear_maps(network: nn.Module, fill: Fill = keep_weights) -> None:
    """Replaces a network's linear maps by quantised ones, and drops their own weights.

    Args:
        network: The network.
        fill: Called with each part once, a linear map before it is quantised: so a network whose
            weights are on disk takes the memory of one linear map more than its integers.
    """
    # Linear maps aren't listed: one that is listed would stay in memory until the last is replaced.
    for part in [part for part in network.modules() if not isinstance(part, nn.Linear)]:
        fill(part)
        for name in [name for name, child in part.named_children() if isinstance(child, nn.Linear)]:
            child = part.get_submodule(name)
            assert isinstance(child, nn.Linear)
            fill(child)
            setattr(part, name, QuantizedLinear(child.weight, child.bias))


KERNELS: tuple[type[IntegerProduct], ...] = (
    CompiledProduct,
    SignedOneDnnProduct,
    OneDnnProduct,
    IntMmProduct,
    PlainProduct,
)
_CHECKED_SHAPE, _TIMED_SHAPE = (32, 4_096, 64), (256, 512, 512)
"""Rows, inputs and outputs."""
_MAX_SECONDS = 0.01
"""Of the first, which takes less than a thousandth by a kernel that is worth a trial."""
_TRIES = 5
_MAX_LOSS_TO_COMPILE = 2.0
"""How much slower than the fastest the compiled kernel may be."""
_MIN_GAIN = 1.2
"""How much faster 8 bits must be to be taken by themselves."""


@cache
def choose_kernel() -> type[IntegerProduct]:
    """Returns the fastest kernel of this processor whose sums are exact, tried once a process.

    Compiled passes save more than products alone, and need the compiled kernel: it is taken if it
    isn't much slower, and at once where no other can be so.
    """
    if is_compiled_fastest() and is_exact(CompiledProduct):
        return CompiledProduct
    rows, weight = _draw_extremes(_TIMED_SHAPE)
    exact = [kind for kind in KERNELS if is_exact(kind)] or [PlainProduct]
    products = [kind(weight, torch.ones(len(weight))) for kind in exact]
    seconds = [
        _time(product.multiply, as_rows(rows, kind))
        for kind, product in zip(exact, products, strict=True)
    ]
    if CompiledProduct in exact and seconds[exact.index(CompiledProduct)] < (
        _MAX_LOSS_TO_COMPILE * min(seconds)
    ):
        return CompiledProduct
    return exact[seconds.index(min(seconds))]


@cache
def gains_by_compiling(precision: Precision) -> bool:
    """Checks that products in this precision are compiled, and not much slower than PyTorch's.

    Compiled passes save more than products alone. Tried once a process.
    """
    if not can_multiply(precision):
        return False
    if is_compiled_fastest():
        return True
    rows, weight = (integers.float() for integers in _draw_extremes(_TIMED_SHAPE))
    with torch.no_grad():
        ours = _time(CompiledLinear(weight, arithmetic=precision), rows)
        return ours < _MAX_LOSS_TO_COMPILE * _time_pytorch(precision, weight, rows)


def _time_pytorch(precision: Precision, weight: Tensor, rows: Tensor) -> float:
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    plain: nn.Module = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    if gains_by_prepacking(torch.device("cpu")):
        plain = PrepackedLinear(weight.to(dtype))
    return _time(plain.to(dtype), rows.to(dtype))


@cache
def gains_by_quantizing(precision: Precision) -> bool:
    """Checks that this processor multiplies faster in 8 bits, tried once a process."""
    rows, weight = (integers.float() for integers in _draw_extremes(_TIMED_SHAPE))
    with torch.no_grad():
        plain = _time_pytorch(precision, weight, rows)
        if gains_by_compiling(precision):
            plain = min(plain, _time(CompiledLinear(weight, arithmetic=precision), rows))
        return plain > _MIN_GAIN * _time(QuantizedLinear(weight), rows)


def is_exact(kind: type[IntegerProduct]) -> bool:
    """Checks that a kernel is there, has exact sums here, and is none that only imitates.

    Some for processors without VNNI add pairs of products in 16 bits, and overflow.
    """
    if kind is SignedOneDnnProduct and not _has_amx():
        # A trial would take a second.
        return False
    rows, weight = _draw_extremes(_CHECKED_SHAPE)
    given = as_rows(rows, kind)
    try:
        product = kind(weight, torch.ones(len(weight)))
        found = product.multiply(given)
        seconds = _time(product.multiply, given, tries=1)
        if _MAX_SECONDS < seconds < 10 * _MAX_SECONDS:
            # On a busy machine a thread may have had to wait for its processor.
            seconds = _time(product.multiply, given)
    except (AttributeError, RuntimeError):
        # Torch has them under private names, and not on every processor.
        return False
    # In fp32, which doesn't tell the largest sums from their neighbours.
    exact = (rows.double() @ weight.double().t()).float()
    # The plain one serves where no other does, however slow.
    return (seconds < _MAX_SECONDS or kind is PlainProduct) and torch.equal(found, exact)


def is_compiled_fastest() -> bool:
    """Checks, without a trial, that no other kernel here is as fast as the compiled ones.

    With AMX another may be.
    """
    return has_vnni() and not _has_amx()


def _has_amx() -> bool:
    """Checks whether the processor multiplies tiles, as far as PyTorch tells."""
    return hasattr(torch.cpu, "_is_amx_tile_supported") and torch.cpu._is_amx_tile_supported()


def as_rows(rows: Int8[Tensor, "rows inputs"], kind: type[IntegerProduct]) -> Tensor:
    """Returns integers in the type that a kernel takes."""
    if kind.dtype == torch.int8:
        return rows
    return (rows.int() + _UINT8_OFFSET).to(kind.dtype)


def _draw_extremes(shape: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    """Returns rows and a weight of the largest integers, so that whatever may overflow does."""
    num_rows, num_inputs, num_outputs = shape
    generator = torch.Generator().manual_seed(0)
    rows, weight = (
        torch.randint(0, 2, (height, num_inputs), generator=generator) * 2 - 1
        for height in (num_rows, num_outputs)
    )
    # A row that has the weight's signs makes the largest sum that there is; one sign for all, the
    # largest sums on the way of a kernel that reads rows without signs.
    weight[0] = 1
    rows[0] = weight[0]
    return (rows * MAX_INTEGER).to(torch.int8), (weight * MAX_INTEGER).to(torch.int8)


def _time(multiply: Callable[[Tensor], Tensor], rows: Tensor, *, tries: int = _TRIES) -> float:
    """Returns the shortest time of a few, in seconds."""
    shortest = math.inf
    for _ in range(tries):
        started_at = time.perf_counter()
        multiply(rows)
        shortest = min(shortest, time.perf_counter() - started_at)
    return shortest
