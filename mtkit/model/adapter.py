"""An adapter: LoRA's weights as a small folder next to the base model (arXiv 2106.09685).

A model folder with two files instead of `model.safetensors`:

adapter.json         the path and digest of its base model, and LoRA's settings
adapter.safetensors  low-rank matrices; embeddings, if they were trained too

Several adapters may have the same base model.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveInt
from torch import Tensor

from mtkit.errors import MtkitError
from mtkit.files import check_format, read_json, reporting_faults
from mtkit.model.config import (
    ADAPTER_FILE,
    ADAPTER_WEIGHTS_FILE,
    WEIGHTS_FILE,
    ModelConfig,
    is_adapter,
    read_config,
)
from mtkit.model.digest import digest_model, reading
from mtkit.model.parameters import Shape, learns_whole, list_adapted, list_learned_shapes, name_pair
from mtkit.model.weight_files import check_weights
from mtkit.model.weights import read_weights
from mtkit.network.low_rank import find_update
from mtkit.recipe.lora import Lora
from mtkit.recipe.model import Model
from mtkit.recipe.section import Section

FORMAT_VERSION = 2
"""Raised when other versions can't read the adapters that this version writes, or the reverse."""
_MAX_BYTES = 1 << 20


class AdapterConfig(Section):
    """The base model of an adapter, and LoRA's settings."""

    format_version: PositiveInt = FORMAT_VERSION
    """Version of the adapter's layout."""
    base: Annotated[str, Field(min_length=1, max_length=4_096)]
    """The model folder that it updates; relative to the adapter's own."""
    base_digest: Annotated[str, Field(max_length=64)]
    """That model's digest: with another base the updates are meaningless."""
    lora: Lora
    """The recipe's section."""

    @classmethod
    def of(cls, base: Path, folder: Path, lora: Lora, base_digest: str) -> "AdapterConfig":
        """Returns the config of an adapter that is to be written to `folder`."""
        relative = os.path.relpath(base.resolve(), folder.resolve())
        return cls(base=Path(relative).as_posix(), base_digest=base_digest, lora=lora)


def list_weight_files(folder: Path) -> list[Path]:
    """Returns the files with a model's weights: for an adapter its own and its base's."""
    if not is_adapter(folder):
        return [folder / WEIGHTS_FILE]
    base = folder / read_adapter_config(folder).base
    _check_base(folder, base)
    return [folder / ADAPTER_WEIGHTS_FILE, base / WEIGHTS_FILE]


def read_adapter_config(folder: Path) -> AdapterConfig:
    """Returns an adapter's config."""
    path = folder / ADAPTER_FILE
    facts = read_json(path, max_bytes=_MAX_BYTES)
    check_format(facts, path, FORMAT_VERSION, "train the adapter again")
    with reporting_faults(path, "copy the complete folder again"):
        # As JSON, because a strict model takes no lists for tuples.
        return AdapterConfig.model_validate_json(json.dumps(facts))


def read_adapted_weights(folder: Path, config: ModelConfig) -> dict[str, Tensor]:
    """Returns the weights of an adapter's model: those of its base with the updates merged.

    Raises an `MtkitError` if the base is missing or isn't the one that it was trained with.
    """
    adapter = read_adapter_config(folder)
    base = folder / adapter.base
    _check_base(folder, base)
    shapes = config.list_shapes()
    learned = list_learned_shapes(shapes, config.model, adapter.lora)
    check_weights(folder / ADAPTER_WEIGHTS_FILE, learned)
    with reading(base):
        found = digest_model(base)
        if found != adapter.base_digest:
            raise MtkitError(
                f"{base} isn't the model that the adapter {folder} was trained with: its digest is "
                f"{found}, expected {adapter.base_digest}",
                f'put that model there, or name its folder as "base" in {folder / ADAPTER_FILE}',
            )
        base_config = read_config(base)
        _check_fits(folder, base, base_config.list_shapes(), shapes, adapter.lora)
        check_weights(base / WEIGHTS_FILE, base_config.list_shapes())
        weights = read_weights(base / WEIGHTS_FILE)
    return merge(
        weights, read_weights(folder / ADAPTER_WEIGHTS_FILE), shapes, config.model, adapter.lora
    )


def _check_base(folder: Path, base: Path) -> None:
    if not base.is_dir():
        raise MtkitError(
            f"{folder} is an adapter, and the model that it updates isn't there: {base}",
            f'put that model there, or name its folder as "base" in {folder / ADAPTER_FILE}',
        )
    if is_adapter(base):
        raise MtkitError(
            f"{base} is an adapter itself, and {folder} can't update it",
            f'name a complete model folder as "base" in {folder / ADAPTER_FILE}',
        )


def _check_fits(
    folder: Path,
    base: Path,
    base_shapes: Mapping[str, Shape],
    shapes: Mapping[str, Shape],
    lora: Lora,
) -> None:
    """Checks that a base has all weights that an adapter's model takes from it."""
    for name, shape in shapes.items():
        if not learns_whole(name, lora) and base_shapes.get(name) != shape:
            raise MtkitError(
                f"{folder}: this adapter doesn't match {base}: {name} differs",
                "copy both folders again",
            )


def merge(
    base: Mapping[str, Tensor],
    learned: Mapping[str, Tensor],
    shapes: Mapping[str, Shape],
    model: Model,
    lora: Lora,
) -> dict[str, Tensor]:
    """Returns a network's weights: the base's with LoRA's updates merged.

    Args:
        base: The base's weights, in fp32; not changed.
        learned: LoRA's weights, by the names of `list_learned_shapes`.
        shapes: The network's weights.
        model: The network.
        lora: LoRA's settings.
    """
    adapted = list_adapted(shapes, model, lora)
    merged = {}
    for name in shapes:
        merged[name] = learned[name] if learns_whole(name, lora) else base[name]
        if name in adapted:
            weight = merged[name].clone()
            for each, one in adapted[name].items():
                up, down = (learned[pair] for pair in name_pair(name, each))
                weight[one.first : one.last] += find_update(up, down, lora.scale)
            merged[name] = weight
    return merged
