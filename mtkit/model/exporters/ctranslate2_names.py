"""A network's weights by CTranslate2's names."""

from collections.abc import Iterator
from dataclasses import dataclass

from mtkit.errors import MtkitError
from mtkit.model.parameters import find_rows, list_shapes
from mtkit.recipe.model import Model

_SUBLAYERS = {
    "encoder": {"attention": "self_attention", "feed_forward": "ffn"},
    "decoder": {
        "self_attention": "self_attention",
        "cross_attention": "attention",
        "feed_forward": "ffn",
    },
}
_MAPS = {
    "self_attention": {"query_key_value": "linear_0", "output": "linear_1"},
    "attention": {"query": "linear_0", "key_value": "linear_1", "output": "linear_2"},
    "ffn": {"inner": "linear_0", "output": "linear_1"},
}
_GATED = "linear_0_noact"
"""The second half of a gated feed-forward's inner map; the gate is the first."""
_OF_NORM = {"weight": "gamma", "bias": "beta"}
_SOURCE, _TARGET = "encoder/embeddings_0/weight", "decoder/embeddings/weight"
_OUTPUT = "decoder/projection/weight"
_OUTPUT_BIAS = "decoder/projection/bias"
_EMBEDDINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "three-way": {"source_embedding.tokens.weight": (_SOURCE, _TARGET, _OUTPUT)},
    "decoder": {
        "source_embedding.tokens.weight": (_SOURCE,),
        "target_embedding.tokens.weight": (_TARGET, _OUTPUT),
    },
    "none": {
        "source_embedding.tokens.weight": (_SOURCE,),
        "target_embedding.tokens.weight": (_TARGET,),
        "output_embedding.weight": (_OUTPUT,),
    },
}
"""CTranslate2's names of each matrix, by `model.tied_embeddings`."""


@dataclass(frozen=True)
class ExportedWeight:
    """A weight in CTranslate2's files.

    Attributes:
        name: CTranslate2's name, as in `decoder/layer_0/attention/linear_1/bias`.
        origin: The name in the network.
        rows: First row in the network's weight, and the one after the last.
    """

    name: str
    origin: str
    rows: tuple[int, int]


def check_convertible(model: Model) -> None:
    """Checks that CTranslate2 can run a network of this shape."""
    width = model.d_model / model.num_heads
    lacks = []
    if model.attention_window is not None:
        lacks.append(
            f"restricted self-attention (model.attention_window = {model.attention_window})"
        )
    if model.positions == "rotary":
        lacks.append('rotary positions (model.positions = "rotary")')
    if (model.d_key, model.d_value) != (width, width):
        lacks.append(
            f"heads of a width other than d_model / num_heads = {width:g} "
            f"(model.d_key = {model.d_key}, model.d_value = {model.d_value})"
        )
    if model.embedding_norm:
        lacks.append("normalization of embeddings (model.embedding_norm = true)")
    if lacks:
        raise MtkitError(
            "CTranslate2 can't run this model: it doesn't support " + " or ".join(lacks),
            "translate with mtkit, or train a model without them",
        )


def list_exported(model: Model, vocab_sizes: tuple[int, int]) -> Iterator[ExportedWeight]:
    """Yields every weight except the position vectors, of which an export has one more."""
    for origin, shape in list_shapes(model, *vocab_sizes).items():
        if find_rows(origin) == "positions":
            continue
        names = _EMBEDDINGS[model.tied_embeddings].get(origin) or _name_layer_weight(origin, model)
        is_gated = _GATED in names[-1]
        num_rows = shape[0] // 2 if is_gated else shape[0]
        for name in names:
            start = num_rows if is_gated and name == names[-1] else 0
            yield ExportedWeight(name, origin, (start, start + num_rows))


def _name_layer_weight(origin: str, model: Model) -> tuple[str, ...]:
    """Returns the names of a weight of the encoder or the decoder."""
    match origin.split("."):
        case ["output_bias"]:
            return (_OUTPUT_BIAS,)
        case [stack, "final_norm", kind]:
            return (f"{stack}/layer_norm/{_OF_NORM[kind]}",)
        case [stack, "layers", index, norm, kind]:
            sublayer = _SUBLAYERS[stack][norm.removesuffix("_norm")]
            return (f"{stack}/layer_{index}/{sublayer}/layer_norm/{_OF_NORM[kind]}",)
        case [stack, "layers", index, module, linear, kind]:
            sublayer = _SUBLAYERS[stack][module]
            names = [_MAPS[sublayer][linear]]
            if (module, linear, model.activation) == ("feed_forward", "inner", "swiglu"):
                names.append(_GATED)
            return tuple(f"{stack}/layer_{index}/{sublayer}/{name}/{kind}" for name in names)
    raise ValueError(origin)
