"""C++ kernels for CPUs: the library that is compiled when mtkit is installed.

`kernels/` has the source; `hatch_build.py` compiles it once per kind of CPU. Without a compiler, on
another kind of CPU, or if the source has changed since, there is no library, and PyTorch does the
work.
"""

import ctypes
import hashlib
import math
import weakref
from collections.abc import Callable
from ctypes import POINTER, Structure, c_char_p, c_float, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.recipe.precision import InferencePrecision, Precision

FOLDER = Path(__file__).parent / "kernels"
KINDS = "avx512-bf16", "avx512-vnni", "avx2", "plain"
"""The instruction sets that libraries are compiled for, fastest first."""


class NormWeights(Structure):
    """Weights of a layer normalisation."""

    _fields_: ClassVar = [("weight", c_void_p), ("bias", c_void_p), ("epsilon", c_float)]


class Layer(Structure):
    """Parts of a layer; cross-attention's are null in an encoder."""

    _fields_: ClassVar = [
        *((name, NormWeights) for name in ("self_norm", "cross_norm", "feed_forward_norm")),
        *(
            (name, c_void_p)
            for name in (
                "query_key_value",
                "self_output",
                "cross_query",
                "cross_key_value",
                "cross_output",
                "inner",
                "outer",
            )
        ),
    ]


class NetworkShape(Structure):
    """Widths of a network's layers."""

    _fields_: ClassVar = [
        *((name, c_int64) for name in ("d_model", "num_heads", "d_key", "d_value")),
        ("norm_first", c_int32),
        ("activation", c_int32),
    ]


class Embedding(Structure):
    """Token vectors, [num_tokens, d_model], their scale, and a norm or null."""

    _fields_: ClassVar = [
        ("tokens", c_void_p),
        ("num_tokens", c_int64),
        ("scale", c_float),
        ("norm", POINTER(NormWeights)),
    ]


class StepOutputs(Structure):
    """The requested outputs of a step; see `kernels/network.h`."""

    _fields_: ClassVar = [
        ("log_probabilities", c_void_p),
        ("source_attention", c_void_p),
        ("attention_width", c_int64),
        ("totals", c_void_p),
        ("best_values", c_void_p),
        ("best", c_void_p),
        ("num_best", c_int64),
        ("never", c_void_p),
        ("num_never", c_int64),
    ]


_NO_MEMORY = "no memory for a batch; a smaller inference.batch_tokens takes less"


def _check_status(status: int) -> None:
    """Raises the error of a call; kernels.cpp defines the numbers."""
    match status:
        case 1:
            raise IndexError("a token that the network has no vector of")
        case 2:
            raise MemoryError(_NO_MEMORY)


_SIGNATURES: dict[str, tuple[list[Any], Any]] = {
    "mtkit_made_of": ([], c_char_p),
    "mtkit_instructions": ([], c_char_p),
    "mtkit_supports": ([c_char_p], c_int32),
    "mtkit_new_linear": (
        [c_char_p, c_int64, c_int64, c_void_p, c_void_p, c_void_p],
        c_void_p,
    ),
    "mtkit_free_linear": ([c_void_p], None),
    "mtkit_apply_linear": ([c_void_p, c_void_p, c_int64, c_void_p, c_int32], _check_status),
    "mtkit_multiply": ([c_void_p, c_void_p, c_int64, c_void_p, c_int32], _check_status),
    "mtkit_new_stack": (
        [POINTER(NetworkShape), POINTER(Embedding), POINTER(Layer), c_int64, POINTER(NormWeights)],
        c_void_p,
    ),
    "mtkit_free_stack": ([c_void_p], None),
    "mtkit_encode": (
        [c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_int32],
        _check_status,
    ),
    "mtkit_new_search": (
        [c_void_p, c_void_p, c_void_p, c_void_p, c_int64, c_int64, c_int64, c_int32],
        c_void_p,
    ),
    "mtkit_copy_attention": ([c_void_p, c_int64, c_int64, c_void_p], None),
    "mtkit_free_search": ([c_void_p], None),
    "mtkit_step": ([c_void_p, c_void_p, c_void_p, POINTER(StepOutputs), c_int32], _check_status),
    "mtkit_select": ([c_void_p, c_void_p, c_int64, c_void_p, c_int64], _check_status),
}


def open_library(kind: str) -> ctypes.CDLL | None:
    """Returns the library for a kind of CPU; None if it is missing or can't be used here."""
    found = _try_library(kind)
    return None if isinstance(found, str) else found


def _try_library(kind: str) -> ctypes.CDLL | str:
    """Returns the library for a kind of CPU, or the reason why it can't be used here."""
    path = library_path(kind)
    if not path.exists():
        return "not compiled"
    try:
        library = ctypes.CDLL(str(path))
        for name, (arguments, result) in _SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, result
    except (OSError, AttributeError):
        return "for another system or version"
    # Structures must match the sources: with others the library would access wrong memory.
    digest, *_ = library.mtkit_made_of().split()
    return library if digest == _digest_sources() else "compiled from other sources"


def _digest_sources() -> bytes:
    """Returns the digest that a library of the current sources has."""
    sources = sorted([*FOLDER.glob("*.h"), *FOLDER.glob("*.cpp")])
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources))
    return digest.hexdigest().encode()


def library_path(kind: str) -> Path:
    """Returns the path of the library for a kind of CPU."""
    return FOLDER / f"{kind}.so"


@cache
def choose_library() -> ctypes.CDLL | None:
    """Returns the library for this CPU; None without one."""
    plain = open_library("plain")
    if plain is None:
        return None
    kind = _choose_kind(plain)
    return plain if kind == "plain" else open_library(kind) or plain


def _choose_kind(plain: ctypes.CDLL) -> str:
    """Returns the fastest kind for this CPU; the plain library runs on any."""
    return next(kind for kind in KINDS if plain.mtkit_supports(kind.encode()))


def describe_kernels() -> str:
    """Returns which library is used, and the reason if none is or only the plain one."""
    plain = _try_library("plain")
    if isinstance(plain, str):
        return f"none: {library_path('plain')} is {plain}; install mtkit again with a C++ compiler"
    kind = _choose_kind(plain)
    library = _try_library(kind)
    if isinstance(library, str):
        return f"plain: {library_path(kind)} is {library}; install mtkit again"
    return kind


def has_kernels() -> bool:
    """Checks that a library is compiled for this kind of CPU, not only the plain one."""
    library = choose_library()
    return library is not None and library.mtkit_instructions() != b"plain"


def has_vnni() -> bool:
    """Checks that this CPU's library multiplies 8-bit integers by special instructions."""
    library = choose_library()
    return library is not None and library.mtkit_instructions().startswith(b"avx512")


class LibraryHandle:
    """An object of the library, freed with the last reference to this."""

    # `pointer` is None if the library was out of memory. `keeps` must live as long as the object.

    def __init__(self, pointer: int | None, free: Callable[[int], None], *keeps: object) -> None:
        if pointer is None:
            raise MemoryError(_NO_MEMORY)
        self.pointer = pointer
        self._keeps = keeps
        weakref.finalize(self, free, pointer)


def address(tensor: Tensor, dtype: torch.dtype = torch.float32) -> int:
    """Returns the address of a tensor's numbers, which must be contiguous on the CPU."""
    assert tensor.dtype == dtype, f"{tensor.dtype}, expected {dtype}"
    assert tensor.is_contiguous()
    assert tensor.device.type == "cpu"
    return tensor.data_ptr()


def new_linear(
    arithmetic: InferencePrecision,
    weight: Tensor,
    bias: Float[Tensor, " outputs"] | None,
    scales: Float[Tensor, " outputs"] | None = None,
) -> LibraryHandle | None:
    """Returns a linear map in the library; None if it isn't supported in this arithmetic.

    Sums are exact or in fp32. `weight` is [outputs, inputs]: for int8 integers, with the value of a
    unit of each output in `scales`; else fp32.
    """
    library = choose_library()
    if library is None:
        return None
    dtype = torch.int8 if arithmetic == "int8" else torch.float32
    weight = weight.detach().to(dtype).contiguous()
    bias = None if bias is None else bias.detach().float().contiguous()
    scales = None if scales is None else scales.contiguous()
    pointer = library.mtkit_new_linear(
        arithmetic.encode(),
        *weight.shape,
        address(weight, dtype),
        None if scales is None else address(scales),
        None if bias is None else address(bias),
    )
    return None if pointer is None else LibraryHandle(pointer, library.mtkit_free_linear)


def apply_linear(
    handle: LibraryHandle, rows: Float[Tensor, "rows inputs"], num_outputs: int
) -> Float[Tensor, "rows outputs"]:
    """Returns each row times the map's transposed weight, plus its bias."""
    library = choose_library()
    assert library is not None, "it made the map"
    rows = rows.contiguous()
    outputs = torch.empty(len(rows), num_outputs)
    library.mtkit_apply_linear(
        handle.pointer, address(rows), len(rows), address(outputs), torch.get_num_threads()
    )
    return outputs


class CompiledLinear(nn.Module):
    """A linear map with a compiled product in this arithmetic and fp32 sums, for inference only."""

    def __init__(
        self,
        weight: Float[Tensor, "outputs inputs"],
        bias: Float[Tensor, " outputs"] | None = None,
        arithmetic: Precision = "fp32",
    ) -> None:
        super().__init__()
        handle = new_linear(arithmetic, weight, bias)
        if handle is None:
            raise RuntimeError(f"no compiled products in {arithmetic} here")
        self.arithmetic: Precision = arithmetic
        self.handle = handle
        self._num_outputs = len(weight)

    def forward(self, inputs: Float[Tensor, "*rows inputs"]) -> Float[Tensor, "*rows outputs"]:
        """Returns each row times the transposed weight, plus the bias, without gradient."""
        assert not torch.is_grad_enabled()
        num_rows = math.prod(inputs.shape[:-1])
        rows = inputs.reshape(num_rows, inputs.shape[-1])
        outputs = apply_linear(self.handle, rows, self._num_outputs)
        return outputs.view(*inputs.shape[:-1], self._num_outputs)


def can_multiply(arithmetic: Precision) -> bool:
    """Checks that products in this arithmetic are compiled for this CPU."""
    return new_linear(arithmetic, torch.zeros(1, 1), None) is not None


def compile_linear_maps(network: nn.Module, arithmetic: Precision) -> None:
    """Replaces a network's linear maps by compiled ones, and drops their weights."""
    for part in list(network.modules()):
        for name, child in list(part.named_children()):
            if isinstance(child, nn.Linear):
                setattr(part, name, CompiledLinear(child.weight, child.bias, arithmetic))
