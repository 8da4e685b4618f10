"""Packs, loads, writes, reads and checks weights, of networks and of safetensors files.

Checkpoints, model folders, means and exports use it. A config can ask for any size and a file can
claim anything. So a file's header is checked before anything of it is in memory, and a network is
built only if the file has all its weights.
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping
from math import prod
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from mtkit.errors import MtkitError, shorten
from mtkit.foreign_files import check_file
from mtkit.memory import count_memory_bytes
from mtkit.model.parameters import Shape
from mtkit.paths import as_text, for_library

_LENGTH_BYTES = 8
MAX_HEADER_BYTES = 16 << 20
"""A hundred times that of the largest network of a recipe; the library would allow 100 MB."""
_NUMBERS = ("F64", "F32", "F16", "BF16")
_FP32_BYTES, _FP64_BYTES = 4, 8
_LONGEST_FAULT = 200
_COPY_AGAIN = "copy it again from its source, or create it again"


def distinct_weights(model: nn.Module) -> dict[str, Tensor]:
    """Returns the model's own weights, a shared one only under its first name."""
    named = model.state_dict(keep_vars=True)
    first_names = {id(weight): name for name, weight in reversed(named.items())}
    return {name: weight for name, weight in named.items() if first_names[id(weight)] == name}


def pack_weights(model: nn.Module, *, only: Collection[str] | None = None) -> dict[str, Tensor]:
    """Returns all weights, or those in `only`, as contiguous fp32 copies on the CPU.

    A matrix that several parts share appears once, under its first name.
    """
    return {
        name: weight.detach().to("cpu", torch.float32, copy=True).contiguous()
        for name, weight in distinct_weights(model).items()
        if only is None or name in only
    }


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Writes tensors to a safetensors file, with the permissions of any new file."""
    # Created here first: the library's files would be readable only by their owner.
    path.touch()
    rights = path.stat().st_mode
    try:
        save_file(dict(tensors), path, metadata={"format": "pt"})
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        code = int(number[1])
        raise OSError(code, os.strerror(code), str(path)) from error
    path.chmod(rights)


def load_weights(
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    *,
    origin: Path | str = "weights",
    only: Collection[str] | None = None,
) -> None:
    """Sets a model's weights to those of `pack_weights`, in the model's own dtype and device.

    `origin` is for messages. `only` are the names that were packed; None for all.
    """
    weights = distinct_weights(model)
    if only is not None:
        weights = {name: weights[name] for name in only}
    _check_shapes(_shapes_of(tensors), _shapes_of(weights), origin)
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(tensors[name])


def read_weights(path: Path) -> dict[str, Tensor]:
    """Returns the tensors in a safetensors file."""
    _check_header(path)
    try:
        with for_library(path) as readable:
            return load_file(readable)
    except (MemoryError, SafetensorError) as error:
        raise _damaged(path, str(error)) from error


def read_weight(path: Path, name: str) -> Tensor:
    """Returns one tensor of a safetensors file; the rest of the file doesn't stay in memory."""
    try:
        # The file is mapped again each time, which frees the pages that were read.
        with for_library(path) as readable, safe_open(readable, framework="pt") as tensors:
            found: Tensor = tensors.get_tensor(name)
            return found
    except (MemoryError, OSError, SafetensorError) as error:
        raise _damaged(path, str(error)) from error


def check_weights(
    path: Path, expected: Mapping[str, Shape], *, optional: Mapping[str, Shape] | None = None
) -> None:
    """Checks that a safetensors file holds a network's weights, and that they fit into memory.

    Both mappings are shapes by name; `optional` weights may be missing.
    """
    check_memory(expected.values(), path)
    _check_header(path)
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
    _check_shapes(found, {**expected, **there}, path)


def read_shapes(path: Path) -> dict[str, Shape]:
    """Returns the shape of each tensor in a safetensors file, by name, without reading tensors."""
    _check_header(path)
    try:
        with for_library(path) as file, safe_open(file, framework="np") as tensors:
            slices = {name: tensors.get_slice(name) for name in tensors.keys()}  # noqa: SIM118
            shapes = {name: tuple(part.get_shape()) for name, part in slices.items()}
            others = [name for name, part in slices.items() if part.get_dtype() not in _NUMBERS]
    except (MemoryError, OSError, SafetensorError) as error:
        raise _damaged(path, str(error)) from error
    if others:
        name = min(others)
        raise _damaged(path, f"{name} has type {slices[name].get_dtype()}, expected F32")
    return shapes


def _check_header(path: Path) -> None:
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
        raise _damaged(path, f"its header claims {length:,} bytes")


def _check_shapes(
    found: Mapping[str, Shape], expected: Mapping[str, Shape], origin: Path | str
) -> None:
    faults = [f"{name} is missing" for name in expected.keys() - found.keys()]
    faults += [f"{name} is not a weight of this model" for name in found.keys() - expected.keys()]
    faults += [
        f"{name} has shape {list(found[name])}, expected {list(shape)}"
        for name, shape in expected.items()
        if name in found and found[name] != shape
    ]
    if faults:
        others = f" (and {len(faults) - 1} more problems)" if len(faults) > 1 else ""
        fault = as_text(shorten(min(faults), _LONGEST_FAULT))
        raise MtkitError(
            f"{origin}: doesn't match the model: {fault}{others}",
            "use the [model] and [tokenizer] that the weights were trained with",
        )


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


def _damaged(path: Path, reason: str) -> MtkitError:
    return MtkitError(
        f"{path}: damaged, or not a safetensors file: {shorten(reason, _LONGEST_FAULT)}",
        _COPY_AGAIN,
    )


def _shapes_of(weights: Mapping[str, Tensor]) -> dict[str, Shape]:
    return {name: tuple(weight.shape) for name, weight in weights.items()}
