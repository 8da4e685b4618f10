"""Safetensors files of weights, read and checked without PyTorch.

A config can ask for any size and a file can claim anything. So a file's header is checked before
anything is read into memory, and a network is built only if the file has all its weights.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from mtkit.errors import MtkitError, shorten
from mtkit.files import check_file
from mtkit.memory import count_memory_bytes
from mtkit.model.parameters import Shape
from mtkit.paths import as_text, for_library

_LENGTH_BYTES = 8
MAX_HEADER_BYTES = 16 << 20
"""A hundred times that of the largest network of a recipe; the library would allow 100 MB."""
_FLOAT_TYPES = ("F64", "F32", "F16", "BF16")
_FP32_BYTES, _FP64_BYTES = 4, 8
_MAX_FAULT_CHARACTERS = 200
_COPY_AGAIN = "copy it again from its source, or create it again"


def check_weights(
    path: Path, expected: Mapping[str, Shape], *, optional: Mapping[str, Shape] | None = None
) -> None:
    """Checks that a safetensors file holds a network's weights, and that they fit into memory.

    Both mappings are shapes by name; `optional` weights may be missing.
    """
    check_memory(expected.values(), path)
    check_header(path)
    optional = optional or {}
    num_weights = sum(map(prod, (*expected.values(), *optional.values())))
    if path.stat().st_size > num_weights * _FP64_BYTES + MAX_HEADER_BYTES:
        raise MtkitError(
            f"{path}: doesn't match the model: {path.stat().st_size:,} bytes for {num_weights:,} "
            "weights",
            _COPY_AGAIN,
        )
    found = read_shapes(path)
    there = {name: shape for name, shape in optional.items() if name in found}
    check_shapes(found, {**expected, **there}, path)


def read_shapes(path: Path) -> dict[str, Shape]:
    """Returns the shape of each tensor in a safetensors file, by name, without reading tensors."""
    check_header(path)
    try:
        with for_library(path) as file, safe_open(file, framework="np") as tensors:
            slices = {name: tensors.get_slice(name) for name in tensors.keys()}  # noqa: SIM118
            shapes = {name: tuple(part.get_shape()) for name, part in slices.items()}
            others = [name for name, part in slices.items() if part.get_dtype() not in _FLOAT_TYPES]
    except (MemoryError, OSError, SafetensorError) as error:
        raise damaged(path, str(error)) from error
    if others:
        name = min(others)
        raise damaged(path, f"{name} has type {slices[name].get_dtype()}, expected F32")
    return shapes


@contextmanager
def opening_arrays(path: Path) -> Iterator[Callable[[str], NDArray[np.float32]]]:
    """Opens a safetensors file; yields a function that reads an array by name, in fp32."""
    check_header(path)

    def read(name: str) -> NDArray[np.float32]:
        try:
            part = tensors.get_slice(name)
            if part.get_dtype() == "BF16":
                # NumPy has no such type.
                return _read_bfloat16(path, name).reshape(part.get_shape())
            return np.ascontiguousarray(tensors.get_tensor(name), np.float32)
        except (OSError, SafetensorError) as error:
            raise damaged(path, str(error)) from error

    with for_library(path) as readable, ExitStack() as stack:
        try:
            tensors = stack.enter_context(safe_open(readable, framework="np"))
        except (OSError, SafetensorError) as error:
            raise damaged(path, str(error)) from error
        yield read


def _read_bfloat16(path: Path, name: str) -> NDArray[np.float32]:
    """Returns the numbers of a tensor in bf16, which are the upper halves of fp32's."""
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
        start, end = json.loads(stream.read(length))[name]["data_offsets"]
        stream.seek(_LENGTH_BYTES + length + start)
        halves = np.frombuffer(stream.read(end - start), "<u2")
    return (halves.astype(np.uint32) << 16).view(np.float32)


def check_header(path: Path) -> None:
    """Checks that a safetensors file is a regular file with a header of plausible size."""
    try:
        num_bytes = check_file(path)
    except FileNotFoundError as error:
        raise MtkitError(f"{path}: no such weights file", "train a model with `mtkit train`") from (
            error
        )
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
    if length > min(num_bytes, MAX_HEADER_BYTES):
        raise damaged(path, f"its header claims {length:,} bytes")


def check_shapes(
    found: Mapping[str, Shape],
    expected: Mapping[str, Shape],
    origin: Path | str,
    *,
    hint: str = "use the [model] and [tokenizer] that the weights were trained with",
) -> None:
    """Raises an `MtkitError` unless shapes by name are as expected; `origin` is their file."""
    faults = [f"{name} is missing" for name in expected.keys() - found.keys()]
    faults += [f"{name} is not a weight of this model" for name in found.keys() - expected.keys()]
    faults += [
        f"{name} has shape {list(found[name])}, expected {list(shape)}"
        for name, shape in expected.items()
        if name in found and found[name] != shape
    ]
    if faults:
        others = f" (and {len(faults) - 1} more problems)" if len(faults) > 1 else ""
        fault = as_text(shorten(min(faults), _MAX_FAULT_CHARACTERS))
        raise MtkitError(f"{origin}: doesn't match the model: {fault}{others}", hint)


def check_memory(shapes: Iterable[Shape], origin: Path | str) -> None:
    """Raises an `MtkitError` if weights of these shapes in fp32 exceed this machine's memory.

    A sparse file can have any size.
    """
    needed, there = sum(map(prod, shapes)) * _FP32_BYTES, count_memory_bytes()
    if there is not None and needed > there:
        raise MtkitError(
            f"{origin}: the network needs {needed / 1e9:,.1f} GB, but this machine has "
            f"{there / 1e9:,.1f} GB of memory"
        )


def damaged(path: Path, reason: str) -> MtkitError:
    """Returns the error of a file that can't be read."""
    return MtkitError(
        f"{path}: damaged, or not a safetensors file: {shorten(reason, _MAX_FAULT_CHARACTERS)}",
        _COPY_AGAIN,
    )
