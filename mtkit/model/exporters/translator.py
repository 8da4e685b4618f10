"""A translator as a folder that transformers loads: `MarianMTModel`, or Pegasus for pre-norm.

Marian is post-norm, Pegasus pre-norm with a norm behind each stack; both have sinusoidal positions
with all sines first, and a bias of each piece's logit. `MarianTokenizer` serves both: SentencePiece
cuts text, and vocab.json has the ids.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mtkit.errors import MtkitError
from mtkit.files import write_atomically
from mtkit.model.config import CONFIG_FILE, WEIGHTS_FILE, ModelConfig, check_translates
from mtkit.model.exporters.residual_order import sines_first
from mtkit.model.exporters.translator_rows import TokenRows, give_back, keep_order
from mtkit.model.folder import LoadedModel
from mtkit.model.importers.marian import TAG
from mtkit.model.importers.translator import HIDDEN_BIAS
from mtkit.model.m2m100_config import ACTIVATIONS
from mtkit.model.transformers_names import to_theirs
from mtkit.model.translator_names import (
    OUTPUT_BIAS,
    POSITIONS,
    find_embeddings,
    list_translator_counterparts,
)
from mtkit.model.weights import pack_weights, write_tensors
from mtkit.network.positions import sinusoids
from mtkit.recipe.inference import Inference
from mtkit.recipe.model import Model
from mtkit.text.arrange_pieces import leave_out_unknown
from mtkit.text.token_ids import PAD
from mtkit.text.tokenizer import SubwordTokenizer

GENERATION_FILE = "generation_config.json"
_MIN_POSITIONS = 512
_TOKENIZER_CONFIG = "tokenizer_config.json"
_NORM_EPSILON = 1e-5


@dataclass(frozen=True)
class WrittenTranslator:
    """A translator in transformers' form.

    Attributes:
        architecture: The class that loads it.
        source: The rows of source tokens.
        target: The rows of target tokens; the source's where one matrix has all.
    """

    architecture: str
    source: TokenRows
    target: TokenRows


def check_holds(config: ModelConfig, tokenizer: SubwordTokenizer, settings: Inference) -> None:
    """Checks that a class of transformers holds a translator exactly.

    Raises:
        MtkitError: None does; the message names all that stands in the way.
    """
    check_translates(config, "export to transformers")
    faults = [*_list_misfits(config.model), *_list_unsupported(tokenizer, settings)]
    if config.objective != "translation":
        faults.append(f'objective = "{config.objective}"')
    if faults:
        raise MtkitError(
            f"{config.recipe}: transformers has no class for this: " + "; ".join(faults),
            "export for CTranslate2 instead (--format ctranslate2)",
        )


def _list_misfits(model: Model) -> Iterator[str]:
    """Yields what a network has that neither Marian nor Pegasus has."""
    width = model.d_model / model.num_heads
    if model.positions != "sinusoidal":
        yield f'model.positions = "{model.positions}", and both have sinusoids'
    if model.sinusoids == "tensor2tensor" or model.first_position:
        yield (
            f'sinusoids = "{model.sinusoids}" from position {model.first_position}, and both have '
            "the paper's wavelengths from position 0"
        )
    if model.activation not in ACTIVATIONS.values():
        yield f'model.activation = "{model.activation}", which has a gate'
    if (model.d_key, model.d_value) != (width, width):
        yield f"heads of another width than d_model / num_heads = {width:g}"
    if model.attention_window is not None:
        yield f"model.attention_window = {model.attention_window}"
    if model.embedding_norm:
        yield "model.embedding_norm = true"
    if model.norm_epsilon != _NORM_EPSILON:
        yield f"model.norm_epsilon = {model.norm_epsilon}, expected {_NORM_EPSILON}"
    if model.norm == "pre" and model.tied_embeddings != "three-way":
        yield (
            f'model.tied_embeddings = "{model.tied_embeddings}" with pre-norm, where Pegasus has '
            "one matrix for all"
        )


def _list_unsupported(tokenizer: SubwordTokenizer, settings: Inference) -> Iterator[str]:
    """Yields what a tokenizer or a search does that transformers' don't."""
    if tokenizer.punctuation is not None:
        yield "tokenizer.punctuation, which MarianTokenizer leaves to whoever calls it"
    others = [tag for tag in tokenizer.tags if not TAG.fullmatch(tag)]
    if others:
        yield f"the tag {others[0]}, where MarianTokenizer has tags like >>deu<<"
    if settings.sampling is not None:
        yield "inference.sampling (--set '~inference.sampling')"
    if settings.coverage_penalty:
        yield "inference.coverage_penalty (--set inference.coverage_penalty=0.0)"


def write_translator(loaded: LoadedModel, folder: Path, settings: Inference) -> WrittenTranslator:
    """Writes a translator into an empty folder, but for its card.

    Args:
        loaded: The model; it stays as it was.
        folder: Where to.
        settings: Decoding defaults, with the power form of the length penalty.

    Raises:
        MtkitError: No class of transformers holds it.
        OSError: The disk is full, or the like.
    """
    check_holds(loaded.config, loaded.tokenizer, settings)
    config, tokenizer = loaded.config, loaded.tokenizer
    weights = pack_weights(loaded.translator)
    if config.model.sinusoids == "interleaved":
        weights = sines_first(weights, config.model.d_model)
    source, target = _find_rows(config.model, tokenizer, weights)
    is_pre_norm = config.model.norm == "pre"
    written = WrittenTranslator(
        "PegasusForConditionalGeneration" if is_pre_norm else "MarianMTModel", source, target
    )
    # Theirs counts the decoder's first input.
    max_length = find_limit(settings) + 1
    longest = max(_MIN_POSITIONS, settings.max_source_tokens, max_length)
    _write_json(folder / CONFIG_FILE, _describe_network(config, written, longest))
    _write_json(folder / GENERATION_FILE, _describe_search(loaded, written, settings, max_length))
    tensors = _rename(config, tokenizer, weights, written)
    if is_pre_norm:
        # Pegasus keeps its table in the file, and Marian doesn't.
        for name in POSITIONS.values():
            tensors[name] = sinusoids(longest, config.model.d_model, "halves")
    write_tensors(tensors, folder / WEIGHTS_FILE)
    _write_tokenizer(folder, config, tokenizer, written, longest)
    return written


def _find_rows(
    model: Model, tokenizer: SubwordTokenizer, weights: Mapping[str, Tensor]
) -> tuple[TokenRows, TokenRows]:
    pieces = (tokenizer.source_vocabulary.pieces, tokenizer.target_vocabulary.pieces)
    foreign = tokenizer.foreign_rows
    if foreign is None:
        source, target = map(keep_order, pieces)
        return source, target
    source_vectors = [weights["source_embedding.tokens.weight"]]
    source = give_back(pieces[0], foreign.list_rows("source"), source_vectors)
    if model.tied_embeddings == "three-way":
        return source, source
    names = ("target_embedding.tokens.weight", "output_embedding.weight")
    target_vectors = [weights[name] for name in names if name in weights]
    return source, give_back(pieces[1], foreign.list_rows("target"), target_vectors)


def _rename(
    config: ModelConfig,
    tokenizer: SubwordTokenizer,
    weights: Mapping[str, Tensor],
    written: WrittenTranslator,
) -> dict[str, Tensor]:
    """Returns weights by transformers' names, a shared one under its first name alone."""
    found = to_theirs(weights, list_translator_counterparts(config))
    for name, (first, *_) in find_embeddings(config).items():
        rows = written.source if name.startswith("source") else written.target
        found[first] = rows.arrange(weights[name])
    bias = weights.get("output_bias", torch.zeros(config.target_vocab_size)).clone()
    foreign = tokenizer.foreign_rows
    if foreign is not None and foreign.padding_bias is not None and bias[PAD] == HIDDEN_BIAS:
        bias[PAD] = foreign.padding_bias
    found[OUTPUT_BIAS] = written.target.arrange(bias)[None]
    return found


def _describe_network(
    config: ModelConfig, written: WrittenTranslator, longest: int
) -> dict[str, Any]:
    """Returns the content of config.json."""
    model, rows = config.model, written.target
    activation = next(name for name, ours in ACTIVATIONS.items() if ours == model.activation)
    described = {
        "architectures": [written.architecture],
        "model_type": "pegasus" if model.norm == "pre" else "marian",
        "is_encoder_decoder": True,
        "vocab_size": len(written.source.origins),
        "d_model": model.d_model,
        "encoder_layers": model.num_encoder_layers,
        "decoder_layers": model.num_decoder_layers,
        "encoder_ffn_dim": model.d_ff,
        "decoder_ffn_dim": model.d_ff,
        "encoder_attention_heads": model.num_heads,
        "decoder_attention_heads": model.num_heads,
        "activation_function": activation,
        "scale_embedding": model.scale_embeddings,
        "max_position_embeddings": longest,
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
        "activation_dropout": model.activation_dropout,
        "pad_token_id": rows.pad,
        "eos_token_id": rows.eos,
        "bos_token_id": None,
        "forced_eos_token_id": None,
        "decoder_start_token_id": rows.start,
        "tie_word_embeddings": model.tied_embeddings != "none",
        "dtype": "float32",
    }
    if model.norm == "post":
        described |= {
            "decoder_vocab_size": len(rows.origins),
            "share_encoder_decoder_embeddings": model.tied_embeddings == "three-way",
        }
    return described


def find_limit(settings: Inference) -> int:
    """Returns the one limit of outputs' length that transformers gets, `</s>` counted."""
    return settings.max_output_tokens or settings.max_source_tokens + settings.max_extra_tokens


def is_exact(settings: Inference) -> bool:
    """Returns whether a search goes on until nothing better can come."""
    return settings.stop_margin >= find_limit(settings)


def _describe_search(
    loaded: LoadedModel, written: WrittenTranslator, settings: Inference, max_length: int
) -> dict[str, Any]:
    """Returns the content of generation_config.json."""
    rows, foreign = written.target, loaded.tokenizer.foreign_rows
    described: dict[str, Any] = {
        "num_beams": settings.beam_size,
        "length_penalty": settings.length_penalty.alpha,
        # A margin of a few tokens lies between the two; "never" takes several times as long.
        "early_stopping": "never" if is_exact(settings) else False,
        "max_length": max_length,
        "bad_words_ids": [[row] for row in rows.forbidden],
        "pad_token_id": rows.pad,
        "eos_token_id": rows.eos,
        "decoder_start_token_id": rows.start,
    }
    if settings.min_length:
        described["min_length"] = settings.min_length + 1
    if settings.no_repeat_ngram is not None:
        described["no_repeat_ngram_size"] = settings.no_repeat_ngram
    if foreign is not None and foreign.padding_bias is not None:
        described["renormalize_logits"] = True
    return described


def _write_tokenizer(
    folder: Path,
    config: ModelConfig,
    tokenizer: SubwordTokenizer,
    written: WrittenTranslator,
    longest: int,
) -> None:
    models = tokenizer.models
    if tokenizer.looks_up_unknown:
        # A piece that one side alone has is no control symbol there: transformers leaves those out.
        models = (leave_out_unknown(models[0]), leave_out_unknown(models[1]))
    for name, model in zip(("source.spm", "target.spm"), models, strict=True):
        (folder / name).write_bytes(model)
    _write_json(folder / "vocab.json", written.source.pieces)
    is_separate = written.target.pieces != written.source.pieces
    if is_separate:
        _write_json(folder / "target_vocab.json", written.target.pieces)
    described = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": config.source_language,
        "target_lang": config.target_language,
        "model_max_length": longest,
        "separate_vocabs": is_separate,
        "unk_token": "<unk>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
    }
    _write_json(folder / _TOKENIZER_CONFIG, described)


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_atomically(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
