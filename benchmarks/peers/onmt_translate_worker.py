"""Translates with OpenNMT-py's own translator for the benchmark, with an mtkit model's weights.

Besides what `translating` names it does `convert`, which must come first: it leaves a checkpoint as
OpenNMT-py saves them, and the lines with `</s>` after each, which mtkit's models were trained to
see and OpenNMT-py adds to no source.

What carries over exactly: interleaved sinusoids on embeddings times sqrt(d_model), which are both
systems' own; learned positions, instead of the sinusoids; ReLU, GELU and SwiGLU; all ways of
sharing embeddings; the epsilon of the norms (1e-5, where OpenNMT-py has 1e-6). OpenNMT-py has the
special tokens in another order, so their rows are permuted, and a bias of the output, which is 0
but for the two tokens that mtkit never gives. It has no post-norm, no restricted attention and no
widths of heads of their own. Its beam search differs: a beam that ends keeps its place in the beam,
and a sentence is done once the best beam has ended.
"""

import json
import struct
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from onmt.bin.translate import _get_parser
from onmt.bin.translate import main as onmt_translate
from onmt.inference_engine import InferenceEnginePY
from onmt.modules.embeddings import PositionalEncoding
from onmt.translate.translator import Translator
from onmt.utils.parse import ArgumentParser
from sentencepiece import SentencePieceProcessor
from translating import (
    Translate,
    find_fastest,
    find_pieces,
    read_lines,
    read_task,
    time_steady,
    versions_of,
    write_lines,
)

BATCHES = (("sents", 30), ("tokens", 1024), ("tokens", 2048), ("tokens", 4096), ("tokens", 8192))
"""Units that its `batch_size` counts, and how many; the first is its default."""
_SPECIAL = ["<unk>", "<blank>", "<s>", "</s>"]
_ORDER = [1, 0, 2, 3]
"""mtkit's ids of these."""
_NEVER_GIVEN = [1, 2]
"""Padding and `<s>`, as OpenNMT-py numbers them."""
_NEVER = -1e4
_NORM_EPSILON = 1e-5
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swiglu": "silu"}

Weights = dict[str, torch.Tensor]


def read_safetensors(path: Path) -> Weights:
    """Returns the fp32 tensors of a safetensors file, whose library this environment lacks."""
    content = bytearray(path.read_bytes())
    [header_length] = struct.unpack("<Q", content[:8])
    start = 8 + header_length
    header = json.loads(content[8:start])
    header.pop("__metadata__", None)
    return {
        name: torch.frombuffer(
            content,
            dtype=torch.float32,
            count=(entry["data_offsets"][1] - entry["data_offsets"][0]) // 4,
            offset=start + entry["data_offsets"][0],
        ).view(entry["shape"])
        for name, entry in header.items()
    }


def check_model(model: dict[str, Any]) -> None:
    """Makes sure that OpenNMT-py can have such a model; ends the process where it can't."""
    width = model["d_model"] // model["num_heads"]
    faults = [
        f"model.{key} = {model[key]}"
        for key, wanted in (("norm", "pre"), ("d_key", width), ("d_value", width))
        if model[key] != wanted
    ]
    if model.get("attention_window") is not None:
        faults.append("model.attention_window")
    if faults:
        sys.exit(f"OpenNMT-py has no {', '.join(faults)}")


def convert_options(model: dict[str, Any]) -> Namespace:
    """Returns what a checkpoint says of its model; the rest is OpenNMT-py's default."""
    return Namespace(
        encoder_type="transformer",
        decoder_type="transformer",
        position_encoding=True,
        position_encoding_type="SinusoidalInterleaved",
        enc_layers=model["num_encoder_layers"],
        dec_layers=model["num_decoder_layers"],
        hidden_size=model["d_model"],
        word_vec_size=model["d_model"],
        transformer_ff=model["d_ff"],
        heads=model["num_heads"],
        pos_ffn_activation_fn=_ACTIVATIONS[model["activation"]],
        norm_eps=_NORM_EPSILON,
        add_qkvbias=True,
        add_ffnbias=True,
        share_embeddings=model["tied_embeddings"] == "three-way",
        share_decoder_embeddings=model["tied_embeddings"] != "none",
        # Of training, but read whenever a model is built.
        freeze_word_vecs_enc=False,
        freeze_word_vecs_dec=False,
        optim="adam",
        dropout=[0.0],
    )


def convert_attention(weights: Weights, ours: str, theirs: str) -> Weights:
    """Returns an attention's weights: one product for several becomes one each."""
    found: Weights = {}
    for kind in ("weight", "bias"):
        found[f"{theirs}.final_linear.{kind}"] = weights[f"{ours}.output.{kind}"]
        if f"{ours}.query.{kind}" in weights:
            query = weights[f"{ours}.query.{kind}"]
            keys, values = weights[f"{ours}.key_value.{kind}"].chunk(2)
        else:
            query, keys, values = weights[f"{ours}.query_key_value.{kind}"].chunk(3)
        for name, part in (("query", query), ("keys", keys), ("values", values)):
            found[f"{theirs}.linear_{name}.{kind}"] = part
    return found


def convert_feed_forward(weights: Weights, ours: str, theirs: str, activation: str) -> Weights:
    """Returns a feed-forward layer's weights with the norm before it."""
    found: Weights = {}
    for kind in ("weight", "bias"):
        inner = weights[f"{ours}.feed_forward.inner.{kind}"]
        if activation == "swiglu":
            gate, linear = inner.chunk(2)
            found[f"{theirs}.w_1.{kind}"], found[f"{theirs}.w_3.{kind}"] = gate, linear
        else:
            found[f"{theirs}.w_1.{kind}"] = inner
        found[f"{theirs}.w_2.{kind}"] = weights[f"{ours}.feed_forward.output.{kind}"]
        found[f"{theirs}.layer_norm.{kind}"] = weights[f"{ours}.feed_forward_norm.{kind}"]
    return found


def convert_norm(weights: Weights, ours: str, theirs: str) -> Weights:
    return {f"{theirs}.{kind}": weights[f"{ours}.{kind}"] for kind in ("weight", "bias")}


def convert_layers(weights: Weights, model: dict[str, Any]) -> Weights:
    """Returns the weights of both stacks."""
    found = convert_norm(weights, "encoder.final_norm", "encoder.layer_norm")
    found |= convert_norm(weights, "decoder.final_norm", "decoder.layer_norm")
    for number in range(model["num_encoder_layers"]):
        ours, theirs = f"encoder.layers.{number}", f"encoder.transformer.{number}"
        found |= convert_attention(weights, f"{ours}.attention", f"{theirs}.self_attn")
        found |= convert_norm(weights, f"{ours}.attention_norm", f"{theirs}.layer_norm")
        found |= convert_feed_forward(weights, ours, f"{theirs}.feed_forward", model["activation"])
    for number in range(model["num_decoder_layers"]):
        ours, theirs = f"decoder.layers.{number}", f"decoder.transformer_layers.{number}"
        for index, kind, name in ((1, "self", "self"), (2, "cross", "context")):
            found |= convert_attention(weights, f"{ours}.{kind}_attention", f"{theirs}.{name}_attn")
            norm = f"{theirs}.layer_norm_{index}"
            found |= convert_norm(weights, f"{ours}.{kind}_attention_norm", norm)
        found |= convert_feed_forward(weights, ours, f"{theirs}.feed_forward", model["activation"])
    return found


def convert_inputs(weights: Weights, model: dict[str, Any], source: str, target: str) -> Weights:
    """Returns the weights of both input layers, given the names of their embeddings."""
    found: Weights = {}
    for stack, side, tokens in (("encoder", "source", source), ("decoder", "target", target)):
        scope = f"{stack}.embeddings.make_embedding"
        positions = PositionalEncoding(model["d_model"], "SinusoidalInterleaved").pe
        learned = weights.get(f"{side}_embedding.positions.weight")
        if learned is not None:
            positions[: learned.shape[0], 0] = learned
        found[f"{scope}.emb_luts.0.weight"] = reorder(weights[tokens])
        found[f"{scope}.pe.pe"] = positions
    return found


def reorder(embeddings: torch.Tensor) -> torch.Tensor:
    """Returns the rows of a vocabulary as OpenNMT-py numbers it."""
    return torch.cat((embeddings[_ORDER], embeddings[len(_ORDER) :]))


def list_pieces(path: Path) -> list[str]:
    """Returns a vocabulary as OpenNMT-py numbers it."""
    pieces = SentencePieceProcessor(model_file=str(path))
    return _SPECIAL + [
        pieces.id_to_piece(token) for token in range(len(_SPECIAL), pieces.get_piece_size())
    ]


def convert(task: dict[str, Any]) -> None:
    """Writes the checkpoint, and the lines as it is to read them."""
    folder = Path(task["model"])
    model = json.loads((folder / "config.json").read_text("utf-8"))["model"]
    check_model(model)
    weights = read_safetensors(folder / "model.safetensors")
    source = "source_embedding.tokens.weight"
    # A matrix that several share stands once, under its first name.
    target = next(n for n in ("target_embedding.tokens.weight", source) if n in weights)
    output = next(n for n in ("output_embedding.weight", target) if n in weights)
    bias = torch.zeros(weights[output].shape[0])
    bias[_NEVER_GIVEN] = _NEVER
    checkpoint = {
        "model": convert_inputs(weights, model, source, target) | convert_layers(weights, model),
        "generator": {"weight": reorder(weights[output]), "bias": bias},
        "vocab": {
            "src": list_pieces(find_pieces(folder, "source")),
            "tgt": list_pieces(find_pieces(folder, "target")),
            "data_task": "seq2seq",
            "decoder_start_token": "<s>",
        },
        "opt": convert_options(model),
    }
    torch.save(checkpoint, checkpoint_of(task))
    write_lines(source_of(task), [line + "</s>" for line in read_lines(task["source"])])


def checkpoint_of(task: dict[str, Any]) -> str:
    return str(Path(task["folder"]) / "onmt.pt")


def source_of(task: dict[str, Any]) -> str:
    return str(Path(task["folder"]) / "onmt_source.txt")


def write_options(task: dict[str, Any], settings: dict[str, Any]) -> str:
    """Returns the path of OpenNMT-py's configuration file."""
    folder = Path(task["model"])
    path = Path(task["folder"]) / "onmt.yaml"
    options = {
        "model": checkpoint_of(task),
        "src": source_of(task),
        "output": task["output"],
        "transforms": ["sentencepiece"],
        "src_subword_model": str(find_pieces(folder, "source")),
        "tgt_subword_model": str(find_pieces(folder, "target")),
        "beam_size": task["beam_size"],
        "min_length": task["min_length"],
        "max_length": task["max_length"],
        "max_length_ratio": 0,
        "length_penalty": "avg" if task["alpha"] else "none",
        "alpha": task["alpha"],
        **settings,
    }
    # JSON is YAML.
    path.write_text(json.dumps(options), "utf-8")
    return str(path)


class Engine:
    """OpenNMT-py's engine, loaded as `onmt_translate` loads it, and a count of what it finds."""

    def __init__(self, task: dict[str, Any], settings: dict[str, Any]) -> None:
        # The file that it writes besides, which is no use here.
        unused = {"output": str(Path(task["folder"]) / "onmt_unused.txt")}
        path = write_options(task, settings | unused)
        self._options = _get_parser().parse_args(["-config", path])
        ArgumentParser.validate_translate_opts(self._options)
        ArgumentParser._get_all_transform_translate(self._options)
        ArgumentParser._validate_transforms_opts(self._options)
        ArgumentParser.validate_translate_opts_dynamic(self._options)
        self._engine = InferenceEnginePY(self._options)
        self._num_tokens = 0
        translate_batch = Translator.translate_batch

        def translate_and_count(this: Translator, *arguments: Any) -> dict[str, Any]:
            found = translate_batch(this, *arguments)
            self._num_tokens += sum(len(predictions[0]) for predictions in found["predictions"])
            return found

        Translator.translate_batch = translate_and_count

    def translate(self, lines: list[str], settings: dict[str, Any]) -> tuple[list[str], int]:
        """Returns the lines' translations and the number of tokens in them."""
        vars(self._options).update(settings)
        self._num_tokens = 0
        _, found = self._engine.infer_list([f"{line}</s>" for line in lines])
        return [best[0] for best in found], self._num_tokens


def main() -> None:
    task, what = read_task()
    # What torch reads of a file nowadays, unless told that more is harmless.
    torch.serialization.add_safe_globals([Namespace])
    candidates = [{"batch_type": kind, "batch_size": size} for kind, size in BATCHES]
    match what:
        case "convert":
            convert(task)
        case "whole":
            sys.argv = ["onmt_translate", "-config", write_options(task, task["settings"])]
            onmt_translate()
        case "tune":
            engine = Engine(task, candidates[0])

            def translator_of(settings: dict[str, Any]) -> Translate:
                return lambda lines: engine.translate(lines, settings)

            find_fastest(task, candidates, translator_of)
        case "steady":
            engine = Engine(task, task["settings"])
            versions = versions_of("OpenNMT-py", "torch")
            facts = {"threads": torch.get_num_threads(), "versions": versions}
            time_steady(task, lambda lines: engine.translate(lines, task["settings"]), facts)


if __name__ == "__main__":
    main()
