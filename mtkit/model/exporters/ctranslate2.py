"""Writes a network's weights as CTranslate2's files."""

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from mtkit.errors import MtkitError, how_to_install, suggest
from mtkit.model.alignment_head import AlignmentHead, default_head
from mtkit.model.exporters.ctranslate2_files import LENGTH_KEY
from mtkit.model.exporters.ctranslate2_names import check_convertible, list_exported
from mtkit.model.weights import distinct_weights
from mtkit.network import EncoderDecoder
from mtkit.network.embeddings import InputEmbedding, LearnedPositions
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
"""CTranslate2's types of matrices; the type after a `_` is that of everything else."""

_ACTIVATIONS = {
    "relu": "RELU",
    "gelu": "GELU",
    "gelu_tanh": "GELUTanh",
    "silu": "SWISH",
    "swiglu": "SWISH",
}
"""CTranslate2's names, by `model.activation`."""


def load_library() -> Any:
    """Returns CTranslate2's package."""
    try:
        import ctranslate2  # noqa: PLC0415 (an extra)
    except ModuleNotFoundError as error:
        raise MtkitError("CTranslate2 isn't installed", how_to_install("ctranslate2")) from error
    except ImportError as error:
        raise MtkitError(
            f"CTranslate2 is installed, but can't be loaded: {error}",
            "pip install --force-reinstall ctranslate2",
        ) from error
    return ctranslate2


def check_quantization(quantization: str) -> None:
    """Checks that CTranslate2 supports a quantization."""
    if quantization not in QUANTIZATIONS:
        raise MtkitError(
            f"unknown quantization '{quantization}'" + suggest(quantization, QUANTIZATIONS),
            "expected one of " + ", ".join(QUANTIZATIONS),
        )


def write_ctranslate2(
    model: EncoderDecoder,
    folder: Path,
    *,
    pieces: tuple[Sequence[str], Sequence[str]],
    max_tokens: int,
    quantization: str,
    alignment_head: AlignmentHead | None = None,
) -> None:
    """Writes a network to an existing folder, as CTranslate2's files.

    Args:
        model: The network; not changed.
        folder: The output folder.
        pieces: Source and target pieces, by token.
        max_tokens: Maximum length of source and output, including `</s>`, for the table of
            positions; learned positions have their own limit.
        quantization: One of `QUANTIZATIONS`.
        alignment_head: The head whose attention CTranslate2 returns; by default the mean of the
            last layer's heads, which a coverage penalty needs.
    """
    shape = model.model
    check_convertible(shape)
    head = alignment_head or default_head(shape)
    specs = load_library().specs
    spec = specs.TransformerSpec.from_config(
        (shape.num_encoder_layers, shape.num_decoder_layers),
        shape.num_heads,
        pre_norm=shape.norm == "pre",
        activation=specs.Activation[_ACTIVATIONS[shape.activation]],
        ffn_glu=shape.activation == "swiglu",
        # CTranslate2 returns the mean of the first heads of one layer.
        alignment_layer=head.layer - 1 if head.layer < shape.num_decoder_layers else -1,
        alignment_heads=shape.num_heads if head.head is None else 1,
    )
    weights = distinct_weights(model)
    if head.head is not None:
        weights = move_head_first(weights, shape, head.layer, head.head)
    _set_weights(spec, model, weights, max_tokens)
    source, target = map(_name_uniquely, pieces)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.unk_token = target[UNK]
    spec.config.bos_token = spec.config.decoder_start_token = target[BOS]
    spec.config.eos_token = target[EOS]
    # The tokenizer has already added `</s>` to every source.
    spec.config.add_source_eos = False
    spec.config.layer_norm_epsilon = _find_epsilon(model)
    longest = shape.max_positions if shape.positions == "learned" else max_tokens
    spec.config.add_attribute(LENGTH_KEY, longest)
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))


def move_head_first(
    weights: Mapping[str, Tensor], shape: Model, layer: int, head: int
) -> dict[str, Tensor]:
    """Returns equivalent weights in which one head of the cross-attention comes first.

    `layer` is the decoder's and `head` the layer's, both from 1.
    """
    order = [head - 1, *(other for other in range(shape.num_heads) if other != head - 1)]
    prefix = f"decoder.layers.{layer - 1}.cross_attention."

    def move(weight: Tensor, widths: Sequence[int]) -> Tensor:
        parts = torch.split(weight, [shape.num_heads * width for width in widths])
        return torch.cat(
            [
                part.reshape(shape.num_heads, -1, *part.shape[1:])[order].flatten(0, 1)
                for part in parts
            ]
        )

    moved = dict(weights)
    for kind in ("weight", "bias"):
        query, key_value = f"{prefix}query.{kind}", f"{prefix}key_value.{kind}"
        moved[query] = move(weights[query], [shape.d_key])
        moved[key_value] = move(weights[key_value], [shape.d_key, shape.d_value])
    output = f"{prefix}output.weight"
    moved[output] = move(weights[output].T, [shape.d_value]).T
    return moved


def _set_weights(
    spec: Any, model: EncoderDecoder, weights: Mapping[str, Tensor], max_tokens: int
) -> None:
    """Sets every weight of CTranslate2's specification of a network."""
    for of_side in (spec.encoder, spec.decoder):
        of_side.scale_embeddings = model.model.scale_embeddings
    embeddings = (model.source_embedding, model.target_embedding)
    source_size, target_size = (len(embedding.tokens.weight) for embedding in embeddings)
    for one in list_exported(model.model, (source_size, target_size)):
        *owners, attribute = one.name.split("/")
        owner = reduce(_find_part, owners, spec)
        setattr(owner, attribute, _copy(weights[one.origin][slice(*one.rows)]))
    for of_side, embedding in zip((spec.encoder, spec.decoder), embeddings, strict=True):
        of_side.position_encodings.encodings = _list_positions(embedding, max_tokens)


def _find_part(spec: Any, name: str) -> Any:
    """Returns an attribute by CTranslate2's name: `layer_1` is the second of a list `layer`."""
    if hasattr(spec, name):
        return getattr(spec, name)
    attribute, _, index = name.rpartition("_")
    return getattr(spec, attribute)[int(index)]


def _list_positions(embedding: InputEmbedding, max_tokens: int) -> npt.NDArray[np.float32]:
    """Returns the vectors of positions, [position, d_model]."""
    positions = embedding.positions
    assert positions is not None, "check_convertible refuses rotary positions"
    table = (
        positions.weight if isinstance(positions, LearnedPositions) else positions(0, max_tokens)
    )
    # CTranslate2 scores one token beyond the maximum and drops the result.
    return np.concatenate((_copy(table), _copy(table[-1:])))


def _copy(weight: Tensor) -> npt.NDArray[np.float32]:
    # CTranslate2 quantizes in place.
    copied: npt.NDArray[np.float32] = weight.detach().cpu().float().numpy().copy()
    return copied


def _find_epsilon(model: EncoderDecoder) -> float:
    """Returns the epsilon that all layer norms share."""
    epsilons = {part.eps for part in model.modules() if isinstance(part, nn.LayerNorm)}
    assert len(epsilons) == 1, epsilons
    return epsilons.pop()


def _name_uniquely(pieces: Sequence[str]) -> list[str]:
    """Returns pieces with a mark added to each that repeats an earlier one."""
    # An imported model may have an ordinary piece `<s>`.
    names: dict[str, None] = {}
    for piece in pieces:
        name = piece
        while name in names:
            name += "'"
        names[name] = None
    return list(names)
