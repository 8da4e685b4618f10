"""Products in 8 bits, for inference only, on a processor.

Weights are quantised once, by output: the largest of each becomes 127. Inputs are quantised by row
at each product, so that a sentence doesn't depend on those beside it. Sums are exact, in int32; the
scales and the bias follow in fp32. Embeddings, norms and softmax stay in fp32.
"""

import math
import time
from collections.abc import Callable
from functools import cache

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn

from mtkit.network.cpu.compiled import CompiledLinear, can_multiply, has_vnni
from mtkit.network.cpu.integer_products import (
    KERNELS,
    MAX_INTEGER,
    CompiledProduct,
    IntegerProduct,
    PlainProduct,
    SignedOneDnnProduct,
    as_rows,
)
from mtkit.network.cpu.prepacked import PrepackedLinear, gains_by_prepacking
from mtkit.recipe.precision import Precision

_ROWS_AT_ONCE = 64


WIDTH_MULTIPLE = 16
"""Sentences of a batch are padded to a multiple of it, before a network with 8-bit products reads
them.

A softmax and products of attention then add up the same numbers in the same order, whatever is
beside a sentence: their vectors hold 8 or 16 numbers. Else sums would differ in the last bit, and a
number on an edge of rounding would become another integer (docs/log.md)."""


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
        # Only zeros have no scale: NaN stays NaN, infinity becomes it, so that products show it.
        scales[rows] = torch.where(largest == 0, 1.0, largest + 0.0 * largest)
        units = (matrix[rows] / scales[rows, None]).round_()
        # A scale below the least normal number is rounded so much that integers would overflow.
        integers[rows] = units.clamp_(-MAX_INTEGER, MAX_INTEGER).nan_to_num_(0.0).to(torch.int8)
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
