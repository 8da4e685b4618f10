"""What a file of weights holds, told by its header before anything of it is in memory.

A config can ask for any size, so a network is built only where the file has every weight of it.
"""

from collections.abc import Callable, Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mtkit.errors import MtkitError, shorten
from mtkit.foreign_files import check_file
from mtkit.memory import count_memory_bytes
from mtkit.model.config import WEIGHTS_FILE
from mtkit.network import EncoderDecoder
from mtkit.paths import as_text, for_library
from mtkit.recipe.model import Model

Shape = tuple[int, ...]

_COPY_AGAIN = "copy it again from where it came from, or make it again"
_LENGTH_BYTES = 8
MAX_HEADER_BYTES = 16 << 20
"""A hundred times what the largest network of a recipe has; the library would take 100 MB."""
_NUMBERS = ("F64", "F32", "F16", "BF16")
_FP32_BYTES, _FP64_BYTES = 4, 8
_LONGEST_FAULT = 200
_DRAWING = ("normal_", "uniform_", "xavier_uniform_", "kaiming_uniform_")
"""What draws initial weights, of torch.nn.init and of tensors."""


def find_weights(path: Path) -> Path:
    """Returns a file of weights: the one given, or that of a model folder or checkpoint."""
    return path / WEIGHTS_FILE if path.is_dir() else path


def distinct_weights(model: nn.Module) -> dict[str, Tensor]:
    """Returns the model's own weights, a shared one under its first name alone."""
    named = model.state_dict(keep_vars=True)
    first_names = {id(weight): name for name, weight in reversed(named.items())}
    return {name: weight for name, weight in named.items() if first_names[id(weight)] == name}


def list_shapes(model: Model, source_vocab_size: int, target_vocab_size: int) -> dict[str, Shape]:
    """Returns the shape of each weight of a network, by name; nothing is allocated for it.

    Raises:
        MtkitError: One embedding is to serve vocabularies of different sizes.
    """
    if model.tied_embeddings == "three-way" and source_vocab_size != target_vocab_size:
        raise MtkitError(
            'model.tied_embeddings = "three-way" needs one vocabulary, but there are '
            f"{source_vocab_size} source and {target_vocab_size} target pieces"
        )
    # All layers of a stack are alike: a million of them cost no more than one.
    changed: dict[str, Any] = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    has_waves = model.positions == "sinusoidal"
    if has_waves:
        # Waves aren't weights, and working them out on the meta device loads sympy, too.
        changed |= {"positions": "learned", "max_positions": 1}
    one_each = model.model_copy(update=changed)
    with torch.device("meta"), _WithoutChance():
        network = EncoderDecoder(one_each, source_vocab_size, target_vocab_size)
    shapes: dict[str, Shape] = {}
    for name, weight in distinct_weights(network).items():
        if has_waves and name.endswith(".positions.weight"):
            continue
        stack, is_layer, rest = name.partition(".layers.0.")
        count = model.num_encoder_layers if stack == "encoder" else model.num_decoder_layers
        names = [f"{stack}.layers.{i}.{rest}" for i in range(count)] if is_layer else [name]
        shapes |= dict.fromkeys(names, tuple(weight.shape))
    return shapes


class _WithoutChance(TorchFunctionMode):
    """Skips drawing initial weights.

    There is nothing to draw on the meta device, and for that PyTorch loads all of sympy: a second.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = {**(kwargs or {})}
        if func.__name__ in _DRAWING:
            return args[0] if args else named["tensor"]
        return func(*args, **named)


def check_weights(path: Path, expected: Mapping[str, Shape]) -> None:
    """Checks that a file holds a network's weights, and that this machine can hold them.

    Args:
        path: A safetensors file.
        expected: What `list_shapes` returned.

    Raises:
        MtkitError: It is missing or damaged, holds other weights, or more than the memory.
    """
    check_memory(expected.values(), str(path))
    check_header(path)
    num_weights = sum(map(prod, expected.values()))
    if path.stat().st_size > num_weights * _FP64_BYTES + MAX_HEADER_BYTES:
        raise MtkitError(
            f"{path}: doesn't fit the model: {path.stat().st_size:,} bytes for {num_weights:,} "
            "weights",
            _COPY_AGAIN,
        )
    refuse_misfits(read_shapes(path), expected, origin=str(path))


def read_shapes(path: Path) -> dict[str, Shape]:
    """Returns the shape of each tensor in a safetensors file, by name.

    Raises:
        MtkitError: It is missing or damaged, or holds what is no weight.
    """
    check_header(path)
    try:
        with for_library(path) as file, safe_open(file, framework="np") as tensors:
            slices = {name: tensors.get_slice(name) for name in tensors.keys()}  # noqa: SIM118
            shapes = {name: tuple(part.get_shape()) for name, part in slices.items()}
            others = [name for name, part in slices.items() if part.get_dtype() not in _NUMBERS]
    except (MemoryError, OSError, SafetensorError) as error:
        raise _damaged(path, str(error)) from error
    if others:
        name = min(others)
        raise _damaged(path, f"{name} is of {slices[name].get_dtype()}, expected F32")
    return shapes


def check_header(path: Path) -> None:
    """Checks that a safetensors file is a regular file whose header is no larger than it can be.

    Raises:
        MtkitError: It isn't.
    """
    try:
        num_bytes = check_file(path)
    except FileNotFoundError as error:
        raise MtkitError(f"{path}: no such weights file", "train a model with `mtkit train`") from (
            error
        )
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
    if length > min(num_bytes, MAX_HEADER_BYTES):
        raise _damaged(path, f"a header of {length:,} bytes")


def refuse_misfits(
    found: Mapping[str, Shape], expected: Mapping[str, Shape], *, origin: str
) -> None:
    """Checks that weights are those of a network, by name and shape.

    Args:
        found: Shapes of the weights there are.
        expected: Those of the network's.
        origin: Where the former come from, for messages.

    Raises:
        MtkitError: One is missing, unknown to the network, or of another shape.
    """
    faults = [f"{name} is missing" for name in expected.keys() - found.keys()]
    faults += [f"{name} is no weight of this model" for name in found.keys() - expected.keys()]
    faults += [
        f"{name} has shape {list(found[name])}, expected {list(shape)}"
        for name, shape in expected.items()
        if name in found and found[name] != shape
    ]
    if faults:
        others = f" (and {len(faults) - 1} more such faults)" if len(faults) > 1 else ""
        fault = as_text(shorten(min(faults), _LONGEST_FAULT))
        raise MtkitError(
            f"{origin}: doesn't fit the model: {fault}{others}",
            "the recipe's [model] and [tokenizer] must be those that the weights were trained with",
        )


def check_memory(shapes: Iterable[Shape], origin: str) -> None:
    """Checks that this machine can hold weights of these shapes in fp32.

    A file with holes can be as large as it likes.

    Raises:
        MtkitError: It can't.
    """
    needed, there = sum(map(prod, shapes)) * _FP32_BYTES, count_memory_bytes()
    if there is not None and needed > there:
        raise MtkitError(
            f"{origin}: a network of {needed / 1e9:,.1f} GB, but this machine has "
            f"{there / 1e9:,.1f} GB of memory"
        )


def _damaged(path: Path, reason: str) -> MtkitError:
    return MtkitError(
        f"{path}: damaged, or no safetensors file: {shorten(reason, _LONGEST_FAULT)}", _COPY_AGAIN
    )
