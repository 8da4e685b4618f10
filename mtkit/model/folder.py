"""A trained model as a portable folder: saved atomically, and loaded.

config.json        the network's config, languages, vocabulary sizes, special token ids
model.safetensors  fp32 weights, a shared matrix once
inference.json     decoding defaults
joint.spm          the tokenizer; source.spm and target.spm for two vocabularies
alignment.json     the head that alignments are read from; missing in older folders
word_aligner.safetensors  word translation table, if the recipe has `data.word_aligner`
README.md          the model card

An adapter (`mtkit/model/adapter.py`) has two files of its own instead of the weights.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from mtkit.files import write_atomically
from mtkit.folders import building
from mtkit.model.adapter import AdapterConfig, read_adapted_weights
from mtkit.model.alignment_head import ALIGNMENT_FILE, WORD_ALIGNER_FILE, AlignmentHead
from mtkit.model.build import build
from mtkit.model.card import CARD_FILE
from mtkit.model.config import (
    ADAPTER_FILE,
    ADAPTER_WEIGHTS_FILE,
    CONFIG_FILE,
    INFERENCE_FILE,
    WEIGHTS_FILE,
    ModelConfig,
    OpenedFolder,
    check_translates,
    is_adapter,
    open_model_folder,
    write_section,
)
from mtkit.model.new_cards import language_model_card, model_card
from mtkit.model.weight_files import check_weights
from mtkit.model.weights import (
    distinct_weights,
    load_weights,
    read_weight,
    read_weights,
    write_tensors,
)
from mtkit.network import CausalLanguageModel, EncoderDecoder, Network
from mtkit.text.tokenizer import SubwordTokenizer

if TYPE_CHECKING:
    from mtkit.recipe import Recipe


@dataclass(frozen=True)
class LoadedModel(OpenedFolder):
    """A model folder in memory; the network is in evaluation mode."""

    model: Network

    @property
    def translator(self) -> EncoderDecoder:
        """The network of a translator; raises an `MtkitError` for other models."""
        check_translates(self.config, "this command")
        assert isinstance(self.model, EncoderDecoder)
        return self.model


def save_model_folder(
    folder: Path,
    *,
    recipe: "Recipe",
    weights: Mapping[str, Tensor],
    tokenizer: SubwordTokenizer,
    labels: Sequence[str] = (),
    origin: str,
    training_facts: Mapping[str, str] | None = None,
    licence: str = "",
    alignment_head: AlignmentHead | None = None,
    word_aligner: Path | None = None,
    record: Callable[[Path], None] | None = None,
    adapter: AdapterConfig | None = None,
) -> None:
    """Writes a complete model folder; a crash leaves an older one intact.

    Args:
        folder: Where to.
        recipe: Recipe that the model was trained with.
        weights: By name, in fp32, a shared one only under its first name.
        tokenizer: The model's.
        labels: A classifier's, sorted.
        origin: Origin of the weights, for the model card: `checkpoint of step 10000`.
        training_facts: Further facts for the model card, by name: `GPU hours`, `sentence pairs`.
        licence: That of the model that training started from.
        alignment_head: By default the last layer's mean.
        word_aligner: The word aligner's file, if any; it is preferred to the head.
        record: Called with the folder once it is in place, before it can be replaced.
        adapter: What the weights are updates of; None for a whole network.
    """
    config = ModelConfig.of(recipe, tokenizer, labels)
    num_parameters = sum(weight.numel() for weight in weights.values())
    facts = {"weights": origin, **(training_facts or {})}
    if config.objective != "translation":
        card = language_model_card(config, num_parameters=num_parameters, facts=facts)
    else:
        card = model_card(
            config,
            recipe.tokenizer,
            num_parameters=num_parameters,
            settings=recipe.inference,
            training_facts=facts,
            licence=licence,
        )
    opened = OpenedFolder(tokenizer, recipe.inference.without_paths, config)
    write_model_folder(
        folder,
        opened,
        weights=weights,
        card=card,
        alignment_head=alignment_head,
        word_aligner=word_aligner,
        record=record,
        adapter=adapter,
    )


def write_model_folder(
    folder: Path,
    opened: OpenedFolder,
    *,
    weights: Mapping[str, Tensor],
    card: str,
    alignment_head: AlignmentHead | None = None,
    word_aligner: Path | None = None,
    record: Callable[[Path], None] | None = None,
    adapter: AdapterConfig | None = None,
) -> None:
    """Writes a model folder; a crash leaves an older one intact. See `save_model_folder`."""
    with building(folder, then=record) as draft:
        write_section(draft / CONFIG_FILE, opened.config)
        write_section(draft / INFERENCE_FILE, opened.settings)
        opened.tokenizer.save(draft)
        if adapter is not None:
            write_section(draft / ADAPTER_FILE, adapter)
        write_tensors(weights, draft / (ADAPTER_WEIGHTS_FILE if adapter else WEIGHTS_FILE))
        if alignment_head is not None:
            write_section(draft / ALIGNMENT_FILE, alignment_head)
        if word_aligner is not None:
            shutil.copyfile(word_aligner, draft / WORD_ALIGNER_FILE)
        write_atomically(draft / CARD_FILE, card)


def load_model_folder(
    folder: Path, *, device: torch.device | str = "cpu", in_int8: bool = False
) -> LoadedModel:
    """Returns a model folder's model, its network on a device.

    With `in_int8` matrix products use 8-bit integers, for inference on the CPU; the fp32 network is
    never entirely in memory. An adapter's stays in fp32.
    """
    opened = open_model_folder(folder)
    if in_int8 and not is_adapter(folder):
        model = load_quantized_network(opened.config, folder / WEIGHTS_FILE)
    else:
        model = load_own_network(opened.config, folder)
    return LoadedModel(opened.tokenizer, opened.settings, opened.config, model.to(device))


def load_own_network(config: ModelConfig, folder: Path) -> Network:
    """Returns the network of a model folder with this config; see `load_network`."""
    if not is_adapter(folder):
        return load_network(config, folder / WEIGHTS_FILE)
    return fill_network(config, read_adapted_weights(folder, config), origin=folder)


def load_network(config: ModelConfig, path: Path) -> Network:
    """Returns a config's network with the weights of a file, on the CPU, in evaluation mode."""
    check_weights(path, config.list_shapes())
    return fill_network(config, read_weights(path), origin=path)


def fill_network(config: ModelConfig, weights: Mapping[str, Tensor], *, origin: Path) -> Network:
    """Returns a config's network with these weights, on the CPU, in evaluation mode."""
    model = build(config, has_initial_weights=False)
    load_weights(model, weights, origin=origin)
    return model.eval()


def load_quantized_network(config: ModelConfig, path: Path) -> Network:
    """Returns `load_network`'s network, quantised matrix by matrix if it generates text."""
    check_weights(path, config.list_shapes())
    # Memory that was never written isn't resident.
    model = build(config, has_initial_weights=False)
    if not isinstance(model, EncoderDecoder | CausalLanguageModel):
        return load_network(config, path)
    names = {id(weight): name for name, weight in distinct_weights(model).items()}

    def fill(part: nn.Module) -> None:
        for weight in part.parameters(recurse=False):
            # A matrix that several parts share is set with the first of them.
            name = names.pop(id(weight), None)
            if name is None:
                continue
            found = read_weight(path, name)
            if isinstance(part, nn.Linear):
                # It is quantised and dropped next, so the mapped data needn't be copied.
                weight.data = found.to(weight.dtype)
            else:
                weight.copy_(found)

    with torch.no_grad():
        model.quantize(fill)
    assert not names, names
    return model.eval()
