"""The codec of weights: of a network, packed and loaded; of a file, written, read and checked.

Checkpoints, model folders, means and exports use this one. A config can ask for any size and a file
can say anything, so a file is checked by its header before anything of it is in memory, and a
network is built only where the file has every weight of it.
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
"""A hundred times what the largest network of a recipe has; the library would take 100 MB."""
_NUMBERS = ("F64", "F32", "F16", "BF16")
_FP32_BYTES, _FP64_BYTES = 4, 8
_LONGEST_FAULT = 200
_COPY_AGAIN = "copy it again from its source, or create it again"


def distinct_weights(model: nn.Module) -> dict[str, Tensor]:
    """Returns the model's own weights, a shared one under its first name alone."""
    named = model.state_dict(keep_vars=True)
    first_names = {id(weight): name for name, weight in reversed(named.items())}
    return {name: weight for name, weight in named.items() if first_names[id(weight)] == name}


def pack_weights(model: nn.Module, *, only: Collection[str] | None = None) -> dict[str, Tensor]:
    """Returns every weight as a contiguous fp32 copy on the CPU, or those of some names alone.

    A matrix that several parts share appears once, under its first name.
    """
    return {
        name: weight.detach().to("cpu", torch.float32, copy=True).contiguous()
        for name, weight in distinct_weights(model).items()
        if only is None or name in only
    }


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Writes tensors to a safetensors file, with the rights that any new file gets.

    Raises:
        OSError: The disk is full, or the like.
    """
    # Made here first: the library gives its own files to their owner alone.
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
    """Sets a model's weights to those that `pack_weights` returned, in its own type and device.

    Args:
        model: A model of the same shape as the packed one.
        tensors: The weights by name.
        origin: Their source, for messages.
        only: The names of those that were packed; all where None.

    Raises:
        MtkitError: A weight is missing, unknown to the model, or of another shape.
    """
    weights = distinct_weights(model)
    if only is not None:
        weights = {name: weights[name] for name in only}
    _check_shapes(_shapes_of(tensors), _shapes_of(weights), origin)
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(tensors[name])


def read_weights(path: Path) -> dict[str, Tensor]:
    """Returns the tensors in a safetensors file.

    Raises:
        MtkitError: It isn't there, or is damaged.
    """
    _check_header(path)
    try:
        with for_library(path) as readable:
            return load_file(readable)
    except (MemoryError, SafetensorError) as error:
        raise _damaged(path, str(error)) from error


def read_weight(path: Path, name: str) -> Tensor:
    """Returns one tensor of a safetensors file; no more of it than that stays in memory.

    Raises:
        MtkitError: It isn't there, or is damaged.
    """
    try:
        # The file is mapped again each time: what was read of it leaves the process's memory again.
        with for_library(path) as readable, safe_open(readable, framework="pt") as tensors:
            found: Tensor = tensors.get_tensor(name)
            return found
    except (MemoryError, OSError, SafetensorError) as error:
        raise _damaged(path, str(error)) from error


def check_weights(
    path: Path, expected: Mapping[str, Shape], *, optional: Mapping[str, Shape] | None = None
) -> None:
    """Checks that a safetensors file holds a network's weights, and that this machine can.

    Args:
        path: The file.
        expected: The shape of each weight.
        optional: Of weights that may be there too.

    Raises:
        MtkitError: It is missing or damaged, holds other weights, or more than the memory.
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
    """Returns the shape of each tensor in a safetensors file, by name; no tensor is read.

    Raises:
        MtkitError: The file is missing or damaged, or a tensor is of other numbers than weights.
    """
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
    """Checks that a safetensors file is a regular file whose header is no larger than it can be."""
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
    """Raises an `MtkitError` where this machine can't hold weights of these shapes in fp32.

    A file with holes can be as large as it likes.
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
