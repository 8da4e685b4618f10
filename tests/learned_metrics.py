"""COMET's published folders in small: unbabel-comet's names and shapes, weights from a seed."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from tokenizers import Tokenizer, models, pre_tokenizers, processors

ROWS = [
    ("ein hund rennt", "a dog runs", "the dog is running"),
    ("das  haus ist alt", "house old", "the house is old"),
    ("", "a", ""),
    ("eins zwei drei vier fuenf sechs sieben acht " * 4, "one two three " * 12, "one two"),
]
"""Source, translation, reference: the last pair is longer than the encoder's positions."""
PIECES = [*"abcdefghijklmnopqrstuvwxyz", "▁", "▁the", "▁a", "▁do", "ou", "ing", "▁is", "ein"]
ENCODER = {
    "model_type": "xlm-roberta",
    "vocab_size": 4 + len(PIECES) + 1,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 42,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "hidden_act": "gelu",
    "pad_token_id": 1,
}


@dataclass(frozen=True)
class Kind:
    """A class of unbabel-comet's, and keys beside `KEYS`; it reads `num_parts` vectors."""

    identifier: str
    num_parts: int
    keys: dict[str, Any]


KEYS = {
    "encoder_model": "XLM-RoBERTa",
    "pretrained_model": "xlm-roberta-large",
    "hidden_sizes": [10, 6],
    "layer": "mix",
    "layer_norm": False,
    "layer_transformation": "sparsemax",
    "pool": "avg",
    "activations": "Tanh",
    "final_activation": None,
    "dropout": 0.1,
    "learning_rate": 1.5e-05,
    "train_data": ["data/1720-da.csv"],
}
_MIXED = {"layer_norm": True, "layer_transformation": "softmax"}
KINDS = {
    "regression": Kind("regression_metric", 6, {}),
    "normalized": Kind("regression_metric", 6, {**_MIXED, "pool": "max"}),
    "one-layer": Kind("regression_metric", 6, {"layer": 1, "pool": "cls"}),
    "referenceless": Kind("referenceless_regression_metric", 4, {}),
    "kiwi": Kind(
        "unified_metric",
        1,
        {"sent_layer": "mix", "input_segments": ["mt", "src"], "word_level_training": True},
    ),
    "unified": Kind(
        "unified_metric",
        1,
        {"sent_layer": "mix", "input_segments": ["mt", "src", "ref"], **_MIXED},
    ),
}


def write_metric(folder: Path, name: str = "regression", **keys: Any) -> Path:
    """Writes a published folder, and its encoder's files beside it; returns the folder."""
    kind = KINDS[name]
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "encoder").mkdir()
    (folder / "encoder" / "config.json").write_text(json.dumps(ENCODER))
    make_tokenizer().save(str(folder / "encoder" / "tokenizer.json"))
    chosen = {**KEYS, **kind.keys, **keys}
    facts = {**chosen, "class_identifier": kind.identifier}
    (folder / "hparams.yaml").write_text(yaml.safe_dump(facts))
    saved = {"state_dict": draw_weights(kind), "hyper_parameters": chosen}
    saved |= {"pytorch-lightning_version": "1.3.5", "epoch": 3, "global_step": 9}
    torch.save(saved, folder / "checkpoints" / "model.ckpt")
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    return folder


def make_tokenizer() -> Any:
    """Returns a tokenizer with XLM-R's special tokens and steps, without its normalisation."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    scores = [(piece, -float(number % 7) - 1.0) for number, piece in enumerate(PIECES)]
    vocabulary = [*((piece, 0.0) for piece in special), *scores, ("<mask>", 0.0)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=3))
    spaces = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(spaces)
    tokenizer.add_special_tokens([*special, "<mask>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


def draw_weights(kind: Kind) -> dict[str, torch.Tensor]:
    """Returns random weights under unbabel-comet's names."""
    generator = torch.Generator().manual_seed(1)
    width, inner = ENCODER["hidden_size"], ENCODER["intermediate_size"]
    found: dict[str, torch.Tensor] = {}

    def draw(name: str, *shape: int, mean: float = 0.0) -> None:
        found[name] = torch.randn(shape, generator=generator) * 0.4 + mean

    def draw_linear(name: str, num_inputs: int, num_outputs: int) -> None:
        draw(f"{name}.weight", num_outputs, num_inputs)
        draw(f"{name}.bias", num_outputs)

    def draw_norm(name: str) -> None:
        draw(f"{name}.weight", width, mean=1.0)
        draw(f"{name}.bias", width)

    embeddings = "encoder.model.embeddings"
    found[f"{embeddings}.position_ids"] = torch.arange(42)[None]
    draw(f"{embeddings}.word_embeddings.weight", ENCODER["vocab_size"], width)
    draw(f"{embeddings}.position_embeddings.weight", 42, width)
    draw(f"{embeddings}.token_type_embeddings.weight", 1, width)
    draw_norm(f"{embeddings}.LayerNorm")
    for number in range(2):
        layer = f"encoder.model.encoder.layer.{number}"
        for part in ("query", "key", "value"):
            draw_linear(f"{layer}.attention.self.{part}", width, width)
        draw_linear(f"{layer}.attention.output.dense", width, width)
        draw_norm(f"{layer}.attention.output.LayerNorm")
        draw_linear(f"{layer}.intermediate.dense", width, inner)
        draw_linear(f"{layer}.output.dense", inner, width)
        draw_norm(f"{layer}.output.LayerNorm")
    if kind.keys.get("layer", "mix") == "mix":
        draw("layerwise_attention.gamma", 1)
        for number in range(3):
            draw(f"layerwise_attention.scalar_parameters.{number}", 1)
        found["layerwise_attention.dropout_mask"] = torch.zeros(3)
    for number, (before, after) in enumerate([(kind.num_parts * width, 10), (10, 6), (6, 1)]):
        draw_linear(f"estimator.ff.{3 * number}", before, after)
    if "word_level_training" in kind.keys:
        draw_linear("hidden2tag", width, 3)
    return found
