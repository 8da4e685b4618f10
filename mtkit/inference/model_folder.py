"""A trained model as a portable folder, and weights in and out of a network.

config.json        the network's shape, languages, vocabulary sizes, special tokens' ids
model.safetensors  fp32 weights, a shared matrix once
inference.json     decoding defaults
joint.spm          the tokenizer; source.spm and target.spm where there are two vocabularies
README.md          the model card
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from pydantic import BaseModel, Field, PositiveInt, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from mtkit.data.tokenizer import BOS, EOS, PAD, UNK, SubwordTokenizer
from mtkit.errors import MtkitError
from mtkit.inference.model_card import model_card, with_scores
from mtkit.model import EncoderDecoder
from mtkit.recipe.inference import Inference
from mtkit.recipe.model import Model
from mtkit.recipe.recipe import Recipe
from mtkit.recipe.section import Section
from mtkit.workspace import building, read_json, write_atomically

FORMAT_VERSION = 1
"""Raised when a folder that this version writes can't be read by older ones."""

WEIGHTS_FILE = "model.safetensors"
_CONFIG_FILE = "config.json"
_INFERENCE_FILE = "inference.json"
_CARD_FILE = "README.md"

SectionKind = TypeVar("SectionKind", bound=BaseModel)


class SpecialTokens(Section):
    """Ids that the network was trained with."""

    pad: int = PAD
    """Padding."""
    unk: int = UNK
    """Unknown piece."""
    bos: int = BOS
    """`<s>`, which begins every target."""
    eos: int = EOS
    """`</s>`, which ends every source and target."""


class ModelConfig(Section):
    """What must be known of a model to build it and to use it."""

    format_version: PositiveInt = FORMAT_VERSION
    """Version of the folder's layout."""
    recipe: str
    """Name of the recipe that it was trained with."""
    source_language: str
    """Language translated from."""
    target_language: str
    """Language translated into."""
    source_vocab_size: PositiveInt
    """Number of source pieces."""
    target_vocab_size: PositiveInt
    """Number of target pieces."""
    special_tokens: SpecialTokens = Field(default_factory=SpecialTokens)
    """Ids of the special tokens."""
    model: Model
    """The recipe's section."""


@dataclass(frozen=True)
class LoadedModel:
    """A model folder in memory; the network is in evaluation mode."""

    model: EncoderDecoder
    tokenizer: SubwordTokenizer
    settings: Inference
    config: ModelConfig


def pack_weights(model: nn.Module) -> dict[str, Tensor]:
    """Returns every weight as a contiguous fp32 copy on the CPU.

    A matrix that several parts share stands once, under the first name that `state_dict` gives it.
    """
    return {
        name: weight.detach().to("cpu", torch.float32, copy=True).contiguous()
        for name, weight in _distinct_weights(model).items()
    }


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Leaves tensors in a safetensors file, with the rights that any new file gets.

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
    model: nn.Module, tensors: Mapping[str, Tensor], *, origin: str = "weights"
) -> None:
    """Leaves the model with the weights that `pack_weights` returned, in its own type and place.

    Args:
        model: A model of the same shape as the packed one.
        tensors: The weights by name.
        origin: Where they come from, for messages.

    Raises:
        MtkitError: A weight is missing, unknown to the model, or of another shape.
    """
    weights = _distinct_weights(model)
    faults = [f"{name} is missing" for name in weights.keys() - tensors.keys()]
    faults += [f"{name} is no weight of this model" for name in tensors.keys() - weights.keys()]
    faults += [
        f"{name} has shape {list(tensors[name].shape)}, expected {list(weight.shape)}"
        for name, weight in weights.items()
        if name in tensors and tensors[name].shape != weight.shape
    ]
    if faults:
        others = f" (and {len(faults) - 1} more such faults)" if len(faults) > 1 else ""
        raise MtkitError(
            f"{origin}: doesn't fit the model: {min(faults)}{others}",
            "the recipe's [model] and [tokenizer] must be those that the weights were trained with",
        )
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(tensors[name])


def read_weights(path: Path) -> dict[str, Tensor]:
    """Returns the tensors in a safetensors file, or in the one that a folder holds.

    Raises:
        MtkitError: It isn't there, or is damaged.
    """
    if path.is_dir():
        path = path / WEIGHTS_FILE
    if not path.is_file():
        raise MtkitError(f"{path}: no such weights file", "train a model with `mtkit train`")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise MtkitError(
            f"{path}: damaged, or no safetensors file: {error}",
            "copy it again from where it came from, or make it anew",
        ) from error


def save_model_folder(
    folder: Path,
    *,
    recipe: Recipe,
    weights: Mapping[str, Tensor],
    tokenizer: SubwordTokenizer,
    origin: str,
    training_facts: Mapping[str, str] | None = None,
) -> None:
    """Leaves a complete model folder, in place of an older one; a crash leaves the older one whole.

    Args:
        folder: Where to.
        recipe: What the model was trained with.
        weights: What `pack_weights` returned, or an average of such.
        tokenizer: What the model's text was cut with.
        origin: What the weights are, for the model card: `checkpoint of step 10000`.
        training_facts: More for the model card, by name: `GPU hours`, `sentence pairs`.
    """
    config = ModelConfig(
        recipe=recipe.name,
        source_language=recipe.data.source_language,
        target_language=recipe.data.target_language,
        source_vocab_size=tokenizer.source_vocab_size,
        target_vocab_size=tokenizer.target_vocab_size,
        model=recipe.model,
    )
    card = model_card(
        recipe,
        num_parameters=sum(weight.numel() for weight in weights.values()),
        vocab_sizes=(tokenizer.source_vocab_size, tokenizer.target_vocab_size),
        training_facts={"weights": origin, **(training_facts or {})},
    )
    with building(folder) as draft:
        _write_section(draft / _CONFIG_FILE, config)
        _write_section(draft / _INFERENCE_FILE, recipe.inference)
        tokenizer.save(draft)
        write_tensors(weights, draft / WEIGHTS_FILE)
        write_atomically(draft / _CARD_FILE, card)


def load_model_folder(
    folder: Path, *, device: torch.device | str = "cpu", weights_file: Path | None = None
) -> LoadedModel:
    """Returns the model in a folder.

    Args:
        folder: What `save_model_folder` left.
        device: Where the network shall be.
        weights_file: Weights to use in place of the folder's, such as a checkpoint's.

    Raises:
        MtkitError: There is no model, a file of it is missing or damaged, or two don't fit.
    """
    settings = read_settings(folder)
    config = _read_config(folder / _CONFIG_FILE)
    tokenizer = SubwordTokenizer.load(folder)
    _check_vocabulary(folder, config, tokenizer)
    path = weights_file if weights_file is not None else folder / WEIGHTS_FILE
    weights = read_weights(path)
    with torch.random.fork_rng(devices=()):
        # The initial weights are thrown away; drawing them must not move the caller's generator.
        model = EncoderDecoder(config.model, config.source_vocab_size, config.target_vocab_size)
    load_weights(model, weights, origin=str(path))
    return LoadedModel(model.to(device).eval(), tokenizer, settings, config)


def read_settings(folder: Path) -> Inference:
    """Returns a model folder's decoding defaults.

    Raises:
        MtkitError: There is no model, or the file is damaged.
    """
    if not (folder / _CONFIG_FILE).is_file():
        raise MtkitError(
            f"{folder}: no model here (no {_CONFIG_FILE})",
            "train one with `mtkit train`, or let `mtkit run` do everything that is missing",
        )
    return _read_section(folder / _INFERENCE_FILE, Inference)


def write_scores(folder: Path, rows: Sequence[tuple[str, str, str, str]]) -> None:
    """Leaves the model card with these scores in place of those it had.

    Args:
        folder: A model folder.
        rows: Test set, metric, score and signature of each.

    Raises:
        MtkitError: The folder has no model card.
    """
    path = folder / _CARD_FILE
    if not path.is_file():
        raise MtkitError(f"{path}: no model card", "train a model with `mtkit train`")
    write_atomically(path, with_scores(path.read_text("utf-8"), rows))


def _distinct_weights(model: nn.Module) -> dict[str, Tensor]:
    """Returns the model's own weights, a shared one under its first name alone."""
    named = model.state_dict(keep_vars=True)
    first_names = {id(weight): name for name, weight in reversed(named.items())}
    return {name: weight for name, weight in named.items() if first_names[id(weight)] == name}


def _write_section(path: Path, section: BaseModel) -> None:
    content = json.dumps(section.model_dump(mode="json"), indent=2, ensure_ascii=False)
    write_atomically(path, content + "\n")


def _read_section(path: Path, kind: type[SectionKind]) -> SectionKind:
    if not path.is_file():
        raise MtkitError(f"{path}: missing from the model folder", "copy the whole folder again")
    content = read_json(path)
    try:
        return kind.model_validate_json(json.dumps(content))
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(str(step) for step in fault["loc"])
        raise MtkitError(
            f"{path}: {key}: {fault['msg']}", "copy the whole folder again, or train it anew"
        ) from error


def _read_config(path: Path) -> ModelConfig:
    version = read_json(path).get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise MtkitError(
            f"{path}: format {version}, but this mtkit reads up to {FORMAT_VERSION}",
            "pip install --upgrade mtkit",
        )
    config = _read_section(path, ModelConfig)
    if config.special_tokens != SpecialTokens():
        raise MtkitError(
            f"{path}: special tokens {config.special_tokens.model_dump()}, "
            f"but this mtkit knows only {SpecialTokens().model_dump()}"
        )
    return config


def _check_vocabulary(folder: Path, config: ModelConfig, tokenizer: SubwordTokenizer) -> None:
    for side, found, expected in (
        ("source", tokenizer.source_vocab_size, config.source_vocab_size),
        ("target", tokenizer.target_vocab_size, config.target_vocab_size),
    ):
        if found != expected:
            raise MtkitError(
                f"{folder}: the tokenizer has {found} {side} pieces, but the model {expected}",
                "the tokenizer must be the one that the model was trained with",
            )
