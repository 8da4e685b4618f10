"""Imports a metric that unbabel-comet published: hparams.yaml and checkpoints/model.ckpt.

The checkpoint is Lightning's, a pickle, of which only tensors and plain values are read. The
encoder's config.json and tokenizer come from a second folder.
"""

import re
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from mtkit.errors import MtkitError, shorten
from mtkit.files import describe_fault, read_file, write_atomically
from mtkit.folders import building
from mtkit.model.card import CARD_FILE
from mtkit.model.comet import MAX_TOKENIZER_BYTES, SPECIAL, CometTokenizer, naming_faults
from mtkit.model.config import CONFIG_FILE, WEIGHTS_FILE, write_section
from mtkit.model.importers.foreign_weights import check_storages, check_tensors, unpickle
from mtkit.model.importers.licence import Licence
from mtkit.model.importers.source_folder import SourceFolder
from mtkit.model.weight_files import check_memory, check_shapes
from mtkit.model.weights import write_tensors
from mtkit.network.comet import CometConfig, EncoderConfig, list_comet_shapes
from mtkit.programs import import_extra
from mtkit.text.tokenizer_files import SETTINGS_FILE

HPARAMS_FILE = "hparams.yaml"
CHECKPOINT_FILE = "checkpoints/model.ckpt"
SENTENCEPIECE_FILE = "sentencepiece.bpe.model"
_MAX_BYTES = 1 << 20
_MAX_NAME = 200
_KINDS = {
    "regression_metric": "regression",
    "referenceless_regression_metric": "referenceless",
    "unified_metric": "unified",
}
_DEFAULTS: dict[str, dict[str, object]] = {
    "regression": {"layer_transformation": "softmax", "hidden_sizes": [3072, 1024]},
    "referenceless": {"layer_transformation": "softmax", "hidden_sizes": [2048, 1024]},
    "unified": {"layer_transformation": "sparsemax", "hidden_sizes": [3072, 1024]},
}
"""unbabel-comet's defaults for keys that a checkpoint lacks."""
_UNUSED = re.compile(
    r"hidden2tag\.|wordloss\.|sentloss\.|encoder\.model\.pooler\.|layerwise_attention\.dropout_"
    r"|encoder\.model\.embeddings\.position_ids"
)
"""Word-level and training-only weights, and buffers that the network computes."""


class ForeignComet:
    """A published metric's keys and memory-mapped tensors.

    Attributes:
        encoder_name: The hub's name of its encoder.
    """

    def __init__(self, folder: SourceFolder) -> None:
        self._origin = f"{folder.origin}/{CHECKPOINT_FILE}"
        path = folder.need(CHECKPOINT_FILE, "copy the published folder, checkpoints included")
        settings = _read_yaml(folder)
        content, _ = unpickle(path, self._origin)
        found = content if isinstance(content, dict) else {}
        saved = found.get("hyper_parameters", {})
        self._keys: dict[str, Any] = {**settings, **(saved if isinstance(saved, dict) else {})}
        # unbabel-comet 2.2.4 and later: it was trained with softmax, whatever the checkpoint says.
        if settings.get("layer_transformation") == "sparsemax_patch":
            self._keys["layer_transformation"] = "softmax"
        self._keys["class_identifier"] = settings.get("class_identifier")
        for key in ("class_identifier", "pretrained_model"):
            # As text, nested YAML or pickle aliases could be endless.
            value = self._keys.get(key)
            if not isinstance(value, str) or len(value) > _MAX_NAME:
                raise self._reject(f"{key}: expected a name of up to {_MAX_NAME} characters")
        weights = found.get("state_dict")
        if not isinstance(weights, dict):
            raise self._reject("no state_dict in it")
        kept = {
            name: each
            for name, each in weights.items()
            if not (isinstance(name, str) and _UNUSED.match(name))
        }
        self._tensors = check_tensors(kept, self._origin)
        check_storages(self._tensors, path, self._origin)
        self._name = folder.name
        self.encoder_name: str = self._keys["pretrained_model"]

    def _reject(self, fault: str) -> MtkitError:
        hint = "mtkit imports COMET, CometKiwi and COMET-QE with XLM-R encoders"
        return MtkitError(f"{self._origin}: {fault}", hint)

    def read_config(self, encoder: SourceFolder) -> CometConfig:
        """Returns the network that the checkpoint and the encoder's config.json describe."""
        keys = self._keys
        kind = _KINDS.get(keys["class_identifier"])
        if kind is None:
            found = shorten(keys["class_identifier"], 80)
            raise self._reject(f"class_identifier is {found}, expected {' or '.join(_KINDS)}")
        theirs = encoder.read_json(CONFIG_FILE, max_bytes=_MAX_BYTES)
        wanted = {**_DEFAULTS[kind], "layer_norm": True, **keys}
        if kind == "unified":
            # It pools the first token, of the layer that `sent_layer` names.
            wanted |= {"layer": keys.get("sent_layer", "mix"), "pool": "cls"}
        chosen = {key: wanted[key] for key in CometConfig.model_fields if key in wanted}
        parts = {key: theirs[key] for key in EncoderConfig.model_fields if key in theirs}
        named = {"name": self._name, "metric": kind, "encoder": parts}
        try:
            return CometConfig.model_validate({**chosen, **named}, strict=False)
        except ValidationError as error:
            raise self._reject(describe_fault(error)) from error

    def convert(self, config: CometConfig) -> dict[str, Tensor]:
        """Returns the weights by mtkit's names, in fp32."""
        shapes = list_comet_shapes(config)
        check_memory(shapes.values(), self._origin)
        found = {name: tuple(tensor.shape) for name, tensor in self._tensors.items()}
        hint = f"--encoder must have the config.json of {shorten(self.encoder_name, 80)}"
        check_shapes(found, shapes, self._origin, hint=hint)
        return {name: self._tensors[name].to(torch.float32).contiguous() for name in shapes}


def _read_yaml(folder: SourceFolder) -> dict[str, Any]:
    # Slow to load.
    import yaml  # noqa: PLC0415

    path = folder.need(HPARAMS_FILE)
    content = read_file(path, max_bytes=_MAX_BYTES, inside=folder.root)
    if b"<<" in content:
        # Nested merge keys could fill the memory.
        raise MtkitError(f"{folder.origin}/{HPARAMS_FILE}: a merge key, which no metric has")
    try:
        found = yaml.safe_load(content)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise MtkitError(f"{folder.origin}/{HPARAMS_FILE}: damaged: {error}") from error
    if not isinstance(found, dict):
        raise MtkitError(f"{folder.origin}/{HPARAMS_FILE}: damaged: expected keys and values")
    return found


def read_tokenizer(encoder: SourceFolder) -> bytes:
    """Returns the encoder's tokenizer.json, made from its SentencePiece model if it has none."""
    path = encoder.find(SETTINGS_FILE)
    if path is not None:
        return read_file(path, max_bytes=MAX_TOKENIZER_BYTES)
    path = encoder.need(
        SENTENCEPIECE_FILE, f"the encoder's folder needs {SETTINGS_FILE} or {SENTENCEPIECE_FILE}"
    )
    read_file(path, max_bytes=MAX_TOKENIZER_BYTES)
    fault = "importing COMET needs transformers"
    slow = import_extra("transformers.convert_slow_tokenizer", fault, "transformers")
    tokenizers = import_extra("tokenizers", fault, "transformers")
    known = SimpleNamespace(vocab_file=str(path), convert_tokens_to_ids=SPECIAL.index)
    with naming_faults(encoder.origin):
        tokenizer = slow.XLMRobertaConverter(known).converted()
    tokenizer.add_special_tokens([*SPECIAL, tokenizers.AddedToken("<mask>", lstrip=True)])
    return bytes(tokenizer.to_str().encode("utf-8"))


def write_comet(
    output: Path, metric: ForeignComet, encoder: SourceFolder, licence: Licence
) -> tuple[CometConfig, int]:
    """Writes a published metric as a folder; returns its config and the number of its weights."""
    config = metric.read_config(encoder)
    tokenizer = read_tokenizer(encoder)
    CometTokenizer(tokenizer, config, f"{encoder.origin}: tokenizer")
    weights = metric.convert(config)
    known = f"license: {licence.name}\n" if licence.name else ""
    card = (
        f"---\n{known}library_name: mtkit\n---\n\n# {config.name}\n\nA learned metric of "
        f"translations, imported from {licence.origin}; encoder: {metric.encoder_name}. Put this "
        "folder into `evaluation.metrics` or after `mtkit score --set`.\n"
    )
    with building(output) as draft:
        write_section(draft / CONFIG_FILE, config)
        write_tensors(weights, draft / WEIGHTS_FILE)
        write_atomically(draft / SETTINGS_FILE, tokenizer)
        write_atomically(draft / CARD_FILE, card)
    return config, sum(prod(weight.shape) for weight in weights.values())
