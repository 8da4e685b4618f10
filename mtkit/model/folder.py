"""A trained model as a portable folder, and weights in and out of a network.

config.json        the network's shape, languages, vocabulary sizes, special tokens' ids
model.safetensors  fp32 weights, a shared matrix once
inference.json     decoding defaults
joint.spm          the tokenizer; source.spm and target.spm where there are two vocabularies
README.md          the model card
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from mtkit.errors import MtkitError
from mtkit.files import building, write_atomically
from mtkit.foreign_files import read_file
from mtkit.model.card import model_card, with_scores
from mtkit.model.config import (
    CONFIG_FILE,
    INFERENCE_FILE,
    WEIGHTS_FILE,
    ModelConfig,
    open_model_folder,
    write_section,
)
from mtkit.model.weights_file import (
    Shape,
    check_header,
    check_weights,
    distinct_weights,
    find_weights,
    list_shapes,
    refuse_misfits,
)
from mtkit.network import EncoderDecoder
from mtkit.paths import for_library
from mtkit.recipe.inference import Inference
from mtkit.recipe.recipe import Recipe
from mtkit.text.tokenizer import SubwordTokenizer

CARD_FILE = "README.md"
_MAX_CARD_BYTES = 1 << 20


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
        for name, weight in distinct_weights(model).items()
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
    weights = distinct_weights(model)
    refuse_misfits(_shapes_of(tensors), _shapes_of(weights), origin=origin)
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(tensors[name])


def read_weights(path: Path) -> dict[str, Tensor]:
    """Returns the tensors in a safetensors file, or in the one that a folder holds.

    Raises:
        MtkitError: It isn't there, or is damaged.
    """
    path = find_weights(path)
    check_header(path)
    try:
        with for_library(path) as readable:
            return load_file(readable)
    except (MemoryError, SafetensorError) as error:
        raise MtkitError(
            f"{path}: damaged, or no safetensors file: {error}",
            "copy it again from where it came from, or make it again",
        ) from error


def save_model_folder(
    folder: Path,
    *,
    recipe: Recipe,
    weights: Mapping[str, Tensor],
    tokenizer: SubwordTokenizer,
    origin: str,
    training_facts: Mapping[str, str] | None = None,
    record: Callable[[Path], None] | None = None,
) -> None:
    """Leaves a complete model folder, in place of an older one; a crash leaves the older one whole.

    Args:
        folder: Where to.
        recipe: What the model was trained with.
        weights: What `pack_weights` returned, or an average of such.
        tokenizer: What the model's text was cut with.
        origin: What the weights are, for the model card: `checkpoint of step 10000`.
        training_facts: More for the model card, by name: `GPU hours`, `sentence pairs`.
        record: Called with the folder once it is in place, before it can be replaced.
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
    with building(folder, then=record) as draft:
        write_section(draft / CONFIG_FILE, config)
        write_section(draft / INFERENCE_FILE, recipe.inference)
        tokenizer.save(draft)
        write_tensors(weights, draft / WEIGHTS_FILE)
        write_atomically(draft / CARD_FILE, card)


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
    opened = open_model_folder(folder)
    config = opened.config
    path = find_weights(weights_file if weights_file is not None else folder)
    check_weights(path, list_shapes(config.model, *config.vocab_sizes))
    weights = read_weights(path)
    with torch.random.fork_rng(devices=()):
        # The initial weights are thrown away; drawing them must not move the caller's generator.
        model = EncoderDecoder(config.model, *config.vocab_sizes)
    load_weights(model, weights, origin=str(path))
    return LoadedModel(model.to(device).eval(), opened.tokenizer, opened.settings, opened.config)


def write_scores(
    folder: Path, rows: Sequence[tuple[str, str, str, str]], *, origin: str = ""
) -> None:
    """Leaves the model card with these scores in place of those it had.

    Args:
        folder: A model folder.
        rows: Test set, metric, score and signature of each.
        origin: What translated, as a phrase: `torch` on `cpu` in `fp32`.

    Raises:
        MtkitError: The folder has no model card.
    """
    card = read_card(folder)
    if card is None:
        raise MtkitError(f"{folder / CARD_FILE}: no model card", "train a model with `mtkit train`")
    write_atomically(folder / CARD_FILE, with_scores(card, rows, origin=origin))


def read_card(folder: Path) -> str | None:
    """Returns a model folder's card; None where it has none.

    Raises:
        MtkitError: It is a link to another place, too large, or invalid UTF-8.
    """
    path = folder / CARD_FILE
    try:
        return read_file(path, max_bytes=_MAX_CARD_BYTES).decode("utf-8").replace("\r\n", "\n")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise MtkitError(f"{path}: damaged: invalid UTF-8: {error}") from error


def _shapes_of(weights: Mapping[str, Tensor]) -> dict[str, Shape]:
    return {name: tuple(weight.shape) for name, weight in weights.items()}
