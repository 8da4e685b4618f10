"""A trained model as a portable folder: saved whole, and loaded.

config.json        the network's shape, languages, vocabulary sizes, special tokens' ids
model.safetensors  fp32 weights, a shared matrix once
inference.json     decoding defaults
joint.spm          the tokenizer; source.spm and target.spm where there are two vocabularies
README.md          the model card
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from mtkit.files import write_atomically
from mtkit.folders import building
from mtkit.model.build import build
from mtkit.model.card import CARD_FILE, model_card
from mtkit.model.config import (
    CONFIG_FILE,
    INFERENCE_FILE,
    WEIGHTS_FILE,
    ModelConfig,
    open_model_folder,
    write_section,
)
from mtkit.model.parameters import list_shapes
from mtkit.model.weights import (
    check_weights,
    find_weights,
    load_weights,
    read_weights,
    write_tensors,
)
from mtkit.network import EncoderDecoder
from mtkit.recipe.inference import Inference
from mtkit.recipe.recipe import Recipe
from mtkit.text.tokenizer import SubwordTokenizer


@dataclass(frozen=True)
class LoadedModel:
    """A model folder in memory; the network is in evaluation mode."""

    model: EncoderDecoder
    tokenizer: SubwordTokenizer
    settings: Inference
    config: ModelConfig


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
    """Writes a complete model folder in place of an older one, which a crash leaves whole.

    Args:
        folder: Where to.
        recipe: Recipe that the model was trained with.
        weights: What `pack_weights` returned, or an average of such.
        tokenizer: Tokenizer of the model's text.
        origin: Origin of the weights, for the model card: `checkpoint of step 10000`.
        training_facts: More for the model card, by name: `GPU hours`, `sentence pairs`.
        record: Called with the folder once it is in place, before it can be replaced.
    """
    config = ModelConfig.of(recipe, tokenizer)
    card = model_card(
        recipe,
        num_parameters=sum(weight.numel() for weight in weights.values()),
        vocab_sizes=config.vocab_sizes,
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
        folder: What `save_model_folder` wrote.
        device: Device of the network.
        weights_file: Weights to use in place of the folder's, such as a checkpoint's.

    Raises:
        MtkitError: There is no model, a file of it is missing or damaged, or two don't fit.
    """
    opened = open_model_folder(folder)
    config = opened.config
    path = find_weights(weights_file if weights_file is not None else folder)
    check_weights(path, list_shapes(config.model, *config.vocab_sizes))
    weights = read_weights(path)
    model = build(config, has_initial_weights=False)
    load_weights(model, weights, origin=str(path))
    return LoadedModel(model.to(device).eval(), opened.tokenizer, opened.settings, opened.config)
