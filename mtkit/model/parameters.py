"""The one map of a network's weights: their names and shapes, and the part that each belongs to.

It is worked out from the config alone: nothing is built, and torch isn't loaded. Freezing, starting
from other weights, conversion, counting and checking files all ask it. That it is the network's is
held against the network itself in `tests/unit/model/test_parameters.py`.

A matrix that several parts share stands once, under its first name.
"""

from collections.abc import Iterator
from typing import Literal

from mtkit.errors import MtkitError
from mtkit.recipe.model import Model

Shape = tuple[int, ...]
Part = Literal["embeddings", "encoder", "decoder", "output"]
"""Embeddings are those of tokens and of positions, with their norm; `output` is a projection that
isn't shared, and the output's bias."""
Rows = Literal["source pieces", "target pieces", "positions"]
"""One row of a matrix for each of these."""

_ROWS: dict[str, Rows] = {
    "source_embedding.tokens.weight": "source pieces",
    "target_embedding.tokens.weight": "target pieces",
    "output_embedding.weight": "target pieces",
    "output_bias": "target pieces",
    "source_embedding.positions.weight": "positions",
    "target_embedding.positions.weight": "positions",
}


def find_part(name: str) -> Part:
    """Returns the part of a network that a weight belongs to.

    Raises:
        ValueError: No network has a weight of this name.
    """
    match name.partition(".")[0]:
        case "source_embedding" | "target_embedding":
            return "embeddings"
        case "encoder":
            return "encoder"
        case "decoder":
            return "decoder"
        case "output_embedding" | "output_bias":
            return "output"
    raise ValueError(name)


def find_rows(name: str) -> Rows | None:
    """Returns what the rows of a weight stand for; None where it is the same for any vocabulary."""
    return _ROWS.get(name)


def list_shapes(model: Model, source_vocab_size: int, target_vocab_size: int) -> dict[str, Shape]:
    """Returns the shape of each weight of a network, by name.

    Args:
        model: The recipe's section.
        source_vocab_size: Number of source pieces.
        target_vocab_size: Number of target pieces.

    Raises:
        MtkitError: One embedding is to serve vocabularies of different sizes.
    """
    if model.tied_embeddings == "three-way" and source_vocab_size != target_vocab_size:
        raise MtkitError(
            'model.tied_embeddings = "three-way" needs one vocabulary, but there are '
            f"{source_vocab_size} source and {target_vocab_size} target pieces"
        )
    shapes: dict[str, Shape] = {
        "source_embedding.tokens.weight": (source_vocab_size, model.d_model)
    }
    if model.tied_embeddings != "three-way":
        shapes["target_embedding.tokens.weight"] = (target_vocab_size, model.d_model)
    if model.tied_embeddings == "none":
        shapes["output_embedding.weight"] = (target_vocab_size, model.d_model)
    if model.positions == "learned":
        for side in ("source", "target"):
            shapes[f"{side}_embedding.positions.weight"] = (model.max_positions, model.d_model)
    if model.embedding_norm:
        for side in ("source", "target"):
            shapes |= _with_bias(f"{side}_embedding.norm", (model.d_model,))
    if model.output_bias:
        shapes["output_bias"] = (target_vocab_size,)
    shapes |= _list_stack("encoder", model.num_encoder_layers, _list_sublayers(model, "encoder"))
    shapes |= _list_stack("decoder", model.num_decoder_layers, _list_sublayers(model, "decoder"))
    if model.norm == "pre":
        for stack in ("encoder", "decoder"):
            shapes |= dict(_with_bias(f"{stack}.final_norm", (model.d_model,)))
    return shapes


def _list_sublayers(model: Model, stack: str) -> dict[str, dict[str, Shape]]:
    """Returns the linear maps of each sub-layer of a layer: [features out, features in]."""
    keys, values = model.num_heads * model.d_key, model.num_heads * model.d_value
    inner = model.d_ff * (2 if model.activation == "swiglu" else 1)
    self_attention: dict[str, Shape] = {
        "query_key_value": (2 * keys + values, model.d_model),
        "output": (model.d_model, values),
    }
    cross_attention: dict[str, Shape] = {
        "query": (keys, model.d_model),
        "key_value": (keys + values, model.d_model),
        "output": (model.d_model, values),
    }
    feed_forward: dict[str, Shape] = {
        "inner": (inner, model.d_model),
        "output": (model.d_model, model.d_ff),
    }
    if stack == "encoder":
        return {"attention": self_attention, "feed_forward": feed_forward}
    return {
        "self_attention": self_attention,
        "cross_attention": cross_attention,
        "feed_forward": feed_forward,
    }


def _list_stack(
    stack: str, num_layers: int, sublayers: dict[str, dict[str, Shape]]
) -> dict[str, Shape]:
    of_layer: dict[str, Shape] = {}
    for sublayer, maps in sublayers.items():
        for name, shape in maps.items():
            of_layer |= _with_bias(f"{sublayer}.{name}", shape)
        d_model = maps["output"][0]
        of_layer |= _with_bias(f"{sublayer}_norm", (d_model,))
    return {
        f"{stack}.layers.{index}.{name}": shape
        for index in range(num_layers)
        for name, shape in of_layer.items()
    }


def _with_bias(name: str, shape: Shape) -> Iterator[tuple[str, Shape]]:
    """Yields the weight and the bias of a linear map or a norm."""
    yield f"{name}.weight", shape
    yield f"{name}.bias", shape[:1]
