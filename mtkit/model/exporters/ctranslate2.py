"""A network's weights as CTranslate2's own files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from mtkit.errors import MtkitError, suggest
from mtkit.model.exporters.ctranslate2_files import (
    LENGTH_KEY,
    ORIGIN_KEY,
    QUANTIZATION_KEY,
    SIZES_KEY,
)
from mtkit.model.exporters.ctranslate2_library import load_library
from mtkit.network import EncoderDecoder
from mtkit.network.attention import CrossAttention, SelfAttention
from mtkit.network.embeddings import InputEmbedding
from mtkit.network.feed_forward import FeedForward
from mtkit.network.layer import TransformerLayer
from mtkit.network.positions import LearnedPositions
from mtkit.recipe.model import Model
from mtkit.text.token_ids import BOS, EOS, UNK

QUANTIZATIONS = (
    "float32",
    "float16",
    "bfloat16",
    "int16",
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
)
"""Number types that CTranslate2 stores matrices in; behind a `_` that of all else."""


def check_quantization(quantization: str) -> None:
    """Checks that CTranslate2 has this number type.

    Raises:
        MtkitError: It hasn't.
    """
    if quantization not in QUANTIZATIONS:
        raise MtkitError(
            f"no quantization '{quantization}'" + suggest(quantization, QUANTIZATIONS),
            "expected one of " + ", ".join(QUANTIZATIONS),
        )


def check_convertible(model: Model) -> None:
    """Checks that CTranslate2 can run a network of this shape.

    Raises:
        MtkitError: It can't.
    """
    width = model.d_model / model.num_heads
    lacks = []
    if model.attention_window is not None:
        lacks.append(
            f"restricted self-attention (model.attention_window = {model.attention_window})"
        )
    if (model.d_key, model.d_value) != (width, width):
        lacks.append(
            f"heads of another width than d_model / num_heads = {width:g} "
            f"(model.d_key = {model.d_key}, model.d_value = {model.d_value})"
        )
    if not model.scale_embeddings:
        lacks.append("embeddings that aren't scaled (model.scale_embeddings = false)")
    if model.embedding_norm:
        lacks.append("norm of embeddings (model.embedding_norm = true)")
    if model.output_bias:
        lacks.append("bias of the output (model.output_bias = true)")
    if lacks:
        raise MtkitError(
            "CTranslate2 can't run this model: it has no " + ", and no ".join(lacks),
            'translate with engine = "torch", or train a model without',
        )


def write_ctranslate2(
    model: EncoderDecoder,
    folder: Path,
    *,
    pieces: tuple[Sequence[str], Sequence[str]],
    max_tokens: int,
    quantization: str,
    made_from: str = "",
) -> None:
    """Leaves a network in an existing folder, in files of CTranslate2's.

    Args:
        model: The network; it stays as it was.
        folder: Where to.
        pieces: The source's and the target's, by token.
        max_tokens: The longest source and output that there shall be positions for, `</s>` counted;
            a model with learned positions has its own number of them.
        quantization: One of `QUANTIZATIONS`.
        made_from: Digest of the model folder that the network was loaded from; empty where it
            wasn't.

    Raises:
        MtkitError: CTranslate2 isn't installed, or can't run such a network.
        OSError: The disk is full, or the like.
    """
    shape = model.model
    check_convertible(shape)
    specs = load_library().specs
    spec = specs.TransformerSpec.from_config(
        (shape.num_encoder_layers, shape.num_decoder_layers),
        shape.num_heads,
        pre_norm=shape.norm == "pre",
        activation=_find_activation(shape, specs),
        ffn_glu=shape.activation == "swiglu",
        # Coverage is measured by the last layer's attention, the mean of all its heads.
        alignment_heads=shape.num_heads,
    )
    _set_encoder(spec.encoder, model, max_tokens)
    _set_decoder(spec.decoder, model, max_tokens)
    source, target = map(_name_uniquely, pieces)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.unk_token = target[UNK]
    spec.config.bos_token = spec.config.decoder_start_token = target[BOS]
    spec.config.eos_token = target[EOS]
    # The tokenizer has closed every source already.
    spec.config.add_source_eos = False
    spec.config.layer_norm_epsilon = _find_epsilon(model)
    longest = shape.max_positions if shape.positions == "learned" else max_tokens
    spec.config.add_attribute(LENGTH_KEY, longest)
    spec.config.add_attribute(SIZES_KEY, [len(source), len(target)])
    spec.config.add_attribute(QUANTIZATION_KEY, quantization)
    if made_from:
        spec.config.add_attribute(ORIGIN_KEY, made_from)
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))


def _find_activation(shape: Model, specs: Any) -> Any:
    match shape.activation:
        case "relu":
            return specs.Activation.RELU
        case "gelu":
            return specs.Activation.GELU
        case "gelu_tanh":
            return specs.Activation.GELUTanh
        case "silu" | "swiglu":
            return specs.Activation.SWISH


def _set_encoder(spec: Any, model: EncoderDecoder, max_tokens: int) -> None:
    _set_embedding(spec.embeddings[0], spec.position_encodings, model.source_embedding, max_tokens)
    for layer_spec, layer in zip(spec.layer, model.encoder.layers, strict=True):
        assert isinstance(layer, TransformerLayer)
        _set_self_attention(layer_spec.self_attention, layer.attention, layer.attention_norm)
        _set_feed_forward(layer_spec.ffn, layer.feed_forward, layer.feed_forward_norm)
    if isinstance(model.encoder.final_norm, nn.LayerNorm):
        _set_norm(spec.layer_norm, model.encoder.final_norm)


def _set_decoder(spec: Any, model: EncoderDecoder, max_tokens: int) -> None:
    _set_embedding(spec.embeddings, spec.position_encodings, model.target_embedding, max_tokens)
    for layer_spec, layer in zip(spec.layer, model.decoder.layers, strict=True):
        assert isinstance(layer, TransformerLayer)
        _set_self_attention(
            layer_spec.self_attention, layer.self_attention, layer.self_attention_norm
        )
        _set_cross_attention(
            layer_spec.attention, layer.cross_attention, layer.cross_attention_norm
        )
        _set_feed_forward(layer_spec.ffn, layer.feed_forward, layer.feed_forward_norm)
    if isinstance(model.decoder.final_norm, nn.LayerNorm):
        _set_norm(spec.layer_norm, model.decoder.final_norm)
    spec.projection.weight = _copy(model.output_embedding.weight)


def _set_embedding(
    spec: Any, positions_spec: Any, embedding: InputEmbedding, max_tokens: int
) -> None:
    spec.weight = _copy(embedding.tokens.weight)
    positions = embedding.positions
    table = (
        positions.weight if isinstance(positions, LearnedPositions) else positions(0, max_tokens)
    )
    # CTranslate2 scores one token more than it is given; what that comes to is thrown away.
    positions_spec.encodings = np.concatenate((_copy(table), _copy(table[-1:])))


def _set_self_attention(spec: Any, attention: SelfAttention, norm: nn.LayerNorm) -> None:
    _set_linear(spec.linear[0], attention.query_key_value)
    _set_linear(spec.linear[1], attention.output)
    _set_norm(spec.layer_norm, norm)


def _set_cross_attention(spec: Any, attention: CrossAttention, norm: nn.LayerNorm) -> None:
    _set_linear(spec.linear[0], attention.query)
    _set_linear(spec.linear[1], attention.key_value)
    _set_linear(spec.linear[2], attention.output)
    _set_norm(spec.layer_norm, norm)


def _set_feed_forward(spec: Any, feed_forward: FeedForward, norm: nn.LayerNorm) -> None:
    if feed_forward.activation == "swiglu":
        weights, biases = (
            part.chunk(2) for part in (feed_forward.inner.weight, feed_forward.inner.bias)
        )
        spec.linear_0.weight, spec.linear_0_noact.weight = map(_copy, weights)
        spec.linear_0.bias, spec.linear_0_noact.bias = map(_copy, biases)
    else:
        _set_linear(spec.linear_0, feed_forward.inner)
    _set_linear(spec.linear_1, feed_forward.output)
    _set_norm(spec.layer_norm, norm)


def _set_linear(spec: Any, linear: nn.Linear) -> None:
    spec.weight, spec.bias = _copy(linear.weight), _copy(linear.bias)


def _set_norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _copy(norm.weight), _copy(norm.bias)


def _copy(weight: Tensor) -> npt.NDArray[np.float32]:
    # CTranslate2 quantizes in place.
    copied: npt.NDArray[np.float32] = weight.detach().cpu().float().numpy().copy()
    return copied


def _find_epsilon(model: EncoderDecoder) -> float:
    """Returns the one epsilon of all layer norms."""
    epsilons = {part.eps for part in model.modules() if isinstance(part, nn.LayerNorm)}
    assert len(epsilons) == 1, epsilons
    return epsilons.pop()


def _name_uniquely(pieces: Sequence[str]) -> list[str]:
    """Returns pieces with a mark on each that has the name of an earlier one.

    A model from elsewhere may have an ordinary piece `<s>`.
    """
    names: dict[str, None] = {}
    for piece in pieces:
        name = piece
        while name in names:
            name += "'"
        names[name] = None
    return list(names)
