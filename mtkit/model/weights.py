"""Packs, loads, writes and reads the weights of networks and safetensors files.

Used by checkpoints, model folders, averages and exports.
"""

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from mtkit.model.parameters import Shape
from mtkit.model.weight_files import check_header, check_shapes, damaged
from mtkit.paths import for_library


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
    # Created here first: the library would make it readable only by its owner.
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(dict(tensors), path, metadata={"format": "pt"})
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        code = int(number[1])
        raise OSError(code, os.strerror(code), str(path)) from error
    path.chmod(mode)


def load_weights(
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    *,
    origin: Path | str = "weights",
    only: Collection[str] | None = None,
) -> None:
    """Sets a model's weights to those of `pack_weights`, keeping the model's dtype and device.

    `origin` is for messages. `only` are the names that were packed; None for all.
    """
    weights = distinct_weights(model)
    if only is not None:
        weights = {name: weights[name] for name in only}
    check_shapes(_shapes_of(tensors), _shapes_of(weights), origin)
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(tensors[name])


def read_weights(path: Path) -> dict[str, Tensor]:
    """Returns the tensors in a safetensors file."""
    check_header(path)
    try:
        with for_library(path) as readable:
            return load_file(readable)
    except (MemoryError, SafetensorError) as error:
        raise damaged(path, str(error)) from error


def read_weight(path: Path, name: str) -> Tensor:
    """Returns one tensor of a safetensors file; the rest of the file doesn't stay in memory."""
    try:
        # The file is mapped again each time, which frees the pages that were read.
        with for_library(path) as readable, safe_open(readable, framework="pt") as tensors:
            found: Tensor = tensors.get_tensor(name)
            return found
    except (MemoryError, OSError, SafetensorError) as error:
        raise damaged(path, str(error)) from error


def _shapes_of(weights: Mapping[str, Tensor]) -> dict[str, Shape]:
    return {name: tuple(weight.shape) for name, weight in weights.items()}
