"""Names and shapes of a network's weights, and the part that each belongs to.

They are computed from the config alone: nothing is built, and torch isn't loaded. Freezing,
initialization from other weights, conversion, counting and file checks use them.
`tests/unit/model/test_parameters.py` compares it with the networks themselves.

A matrix that several parts share appears once, under its first name.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from mtkit.errors import MtkitError
from mtkit.recipe.lora import Lora, MapKind
from mtkit.recipe.model import Model
from mtkit.recipe.objective import ClassifierKind, Objective

Shape = tuple[int, ...]
Part = Literal["embeddings", "encoder", "decoder", "output"]
"""Embeddings are those of tokens, positions and segments, with their norm. `output` is an untied
projection, the output bias, and the heads of a masked language model or a classifier."""
Rows = Literal["source pieces", "target pieces", "positions"]
"""The meaning of a matrix's rows."""

Side = Literal["encoder", "decoder"]
"""The side of a translator that a weight belongs to; the output is the decoder's."""

_ROWS: dict[str, Rows] = {
    "source_embedding.tokens.weight": "source pieces",
    "target_embedding.tokens.weight": "target pieces",
    "output_embedding.weight": "target pieces",
    "output_bias": "target pieces",
    "source_embedding.positions.weight": "positions",
    "target_embedding.positions.weight": "positions",
}


def find_part(name: str) -> Part:
    """Returns the part of a network that a weight belongs to; a ValueError for an unknown name."""
    match name.partition(".")[0]:
        case "source_embedding" | "target_embedding":
            return "embeddings"
        case "encoder":
            return "encoder"
        case "decoder":
            return "decoder"
        case "output_embedding" | "output_bias" | "masked_head" | "pooler":
            return "output"
        case "next_sentence" | "classifier":
            return "output"
    raise ValueError(name)


def find_side(name: str) -> Side:
    """Returns the side of a translator that a weight's name belongs to.

    A matrix that several parts share has a name, and thus a side, in each of them.
    """
    return "encoder" if name.partition(".")[0] in ("source_embedding", "encoder") else "decoder"


def find_counterpart(name: str, *, has_cross_attention: bool) -> str:
    """Returns the name of a translator's weight in another kind of network.

    A layer without cross-attention, as in all language models, calls its attention `attention`; a
    translator's decoder calls it `self_attention`. The same holds for the norm.
    `has_cross_attention` is whether the other network's decoder attends to a source.
    """
    return name if has_cross_attention else name.replace(".self_attention", ".attention")


def rename_layer(name: str, layers: Sequence[int]) -> str:
    """Returns a weight's name in the layer that `layers` has at the index of its own layer."""
    stack, of_layer, rest = name.partition(".layers.")
    if not of_layer:
        return name
    index, _, weight = rest.partition(".")
    return f"{stack}.layers.{layers[int(index)]}.{weight}"


def find_rows(name: str) -> Rows | None:
    """Returns the meaning of a weight's rows; None if it is the same for any vocabulary."""
    return _ROWS.get(name)


class LinearMap(NamedTuple):
    """One of the linear maps that are stacked in a matrix.

    Attributes:
        kind: Its role in the layer.
        first: Its first row.
        last: The row after its last one.
    """

    kind: MapKind
    first: int
    last: int


def find_maps(name: str, model: Model) -> dict[str, LinearMap]:
    """Returns the linear maps stacked in a layer's weight, by name, in order of rows.

    Empty for a weight without linear maps of a layer.
    """
    keys, values = model.num_heads * model.d_key, model.num_heads * model.d_value
    widths: dict[str, tuple[MapKind, int]] = {}
    match name.split(".")[3:]:
        case [_, "query_key_value", "weight"]:
            widths = {"query": ("query", keys), "key": ("key", keys), "value": ("value", values)}
        case [_, "key_value", "weight"]:
            widths = {"key": ("key", keys), "value": ("value", values)}
        case [_, "query", "weight"]:
            widths = {"query": ("query", keys)}
        case ["feed_forward", "inner", "weight"] if model.activation == "swiglu":
            widths = {"gate": ("feed-forward", model.d_ff), "linear": ("feed-forward", model.d_ff)}
        case ["feed_forward", "inner", "weight"]:
            widths = {"inner": ("feed-forward", model.d_ff)}
        case ["feed_forward", "output", "weight"]:
            widths = {"output": ("feed-forward", model.d_model)}
        case [_, "output", "weight"]:
            widths = {"output": ("output", model.d_model)}
    found, first = {}, 0
    for each, (kind, width) in widths.items():
        found[each] = LinearMap(kind, first, first + width)
        first += width
    return found


def list_adapted(
    shapes: Mapping[str, Shape], model: Model, lora: Lora
) -> dict[str, dict[str, LinearMap]]:
    """Returns the maps that LoRA updates, by weight name; `shapes` are from `list_shapes`."""
    found = {}
    for name in shapes:
        maps = find_maps(name, model)
        if chosen := {each: one for each, one in maps.items() if one.kind in lora.maps}:
            found[name] = chosen
    return found


def name_pair(weight: str, each: str) -> tuple[str, str]:
    """Returns the names of LoRA's up and down matrices for a map of a weight."""
    pair = f"{weight.removesuffix('.weight')}.low_rank.{each}"
    return f"{pair}.up", f"{pair}.down"


def is_low_rank(name: str) -> bool:
    """Checks whether a weight is one of LoRA's matrices."""
    return ".low_rank." in name


def list_learned_shapes(shapes: Mapping[str, Shape], model: Model, lora: Lora) -> dict[str, Shape]:
    """Returns the shape of each weight that learns with LoRA: its matrices and whole weights."""
    learned: dict[str, Shape] = {}
    for weight, maps in list_adapted(shapes, model, lora).items():
        for each, one in maps.items():
            up, down = name_pair(weight, each)
            learned[up] = (one.last - one.first, lora.rank)
            learned[down] = (lora.rank, shapes[weight][1])
    for name, shape in shapes.items():
        if learns_whole(name, lora):
            learned[name] = shape
    return learned


def learns_whole(name: str, lora: Lora) -> bool:
    """Checks that a weight of the network itself is trained besides LoRA's matrices."""
    return lora.train_embeddings and find_part(name) in ("embeddings", "output")


def list_shapes(
    model: Model,
    source_vocab_size: int,
    target_vocab_size: int,
    *,
    objective: Objective = "translation",
    next_sentence: bool = True,
    classifier: tuple[ClassifierKind, int] = ("masked-lm", 0),
) -> dict[str, Shape]:
    """Returns the shape of each weight of a network, by name.

    A language model has only target pieces. `next_sentence` is whether a masked one has a pair
    head. `classifier` is a classifier's base and its number of labels.
    """
    match objective:
        case "causal-lm":
            return _list_causal(model, target_vocab_size)
        case "translation" if model.architecture == "decoder-only":
            return _list_causal(model, target_vocab_size)
        case "masked-lm":
            return _list_masked(model, target_vocab_size, next_sentence=next_sentence)
        case "classification":
            return _list_classifier(model, target_vocab_size, *classifier)
        case _:
            return _list_translator(model, source_vocab_size, target_vocab_size)


def _list_translator(
    model: Model, source_vocab_size: int, target_vocab_size: int
) -> dict[str, Shape]:
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
    for side in ("source", "target"):
        shapes |= _list_positions_and_norm(model, f"{side}_embedding")
    if model.output_bias:
        shapes["output_bias"] = (target_vocab_size,)
    shapes |= _list_stack("encoder", model, model.num_encoder_layers)
    shapes |= _list_stack("decoder", model, model.num_decoder_layers, cross_attention=True)
    return shapes


def _list_causal(model: Model, vocab_size: int) -> dict[str, Shape]:
    shapes = _list_text_embeddings(model, "target_embedding", vocab_size)
    if model.output_bias:
        shapes["output_bias"] = (vocab_size,)
    return shapes | _list_stack("decoder", model, model.num_decoder_layers)


def _list_masked(model: Model, vocab_size: int, *, next_sentence: bool) -> dict[str, Shape]:
    shapes = _list_text_embeddings(model, "source_embedding", vocab_size)
    shapes["source_embedding.segments.weight"] = (2, model.d_model)
    shapes["output_bias"] = (vocab_size,)
    shapes |= _list_stack("encoder", model, model.num_encoder_layers)
    shapes |= _with_bias("masked_head.dense", (model.d_model, model.d_model))
    shapes |= _with_bias("masked_head.norm", (model.d_model,))
    if next_sentence:
        shapes |= _with_bias("pooler", (model.d_model, model.d_model))
        shapes |= _with_bias("next_sentence", (2, model.d_model))
    return shapes


def _list_classifier(
    model: Model, vocab_size: int, kind: ClassifierKind, num_labels: int
) -> dict[str, Shape]:
    if kind == "causal-lm":
        shapes = _list_causal(model, vocab_size)
    else:
        shapes = {"source_embedding.tokens.weight": (vocab_size, model.d_model)}
        shapes |= _list_positions_and_norm(model, "source_embedding")
        shapes["source_embedding.segments.weight"] = (2, model.d_model)
        shapes |= _list_stack("encoder", model, model.num_encoder_layers)
        shapes |= _with_bias("pooler", (model.d_model, model.d_model))
    return shapes | dict(_with_bias("classifier", (num_labels, model.d_model)))


def _list_text_embeddings(model: Model, name: str, vocab_size: int) -> dict[str, Shape]:
    """Returns the shapes of a language model's embeddings, of input and output."""
    shapes: dict[str, Shape] = {f"{name}.tokens.weight": (vocab_size, model.d_model)}
    if model.tied_embeddings == "none":
        shapes["output_embedding.weight"] = (vocab_size, model.d_model)
    return shapes | _list_positions_and_norm(model, name)


def _list_positions_and_norm(model: Model, name: str) -> dict[str, Shape]:
    """Returns the shapes of an input embedding's positions and norm."""
    shapes: dict[str, Shape] = {}
    if model.positions == "learned":
        shapes[f"{name}.positions.weight"] = (model.max_positions, model.d_model)
    if model.embedding_norm:
        shapes |= _with_bias(f"{name}.norm", (model.d_model,))
    return shapes


def _list_sublayers(model: Model, *, cross_attention: bool) -> dict[str, dict[str, Shape]]:
    """Returns the linear maps of each sub-layer of a layer: [features out, features in]."""
    keys, values = model.num_heads * model.d_key, model.num_heads * model.d_value
    inner = model.d_ff * (2 if model.activation == "swiglu" else 1)
    self_attention: dict[str, Shape] = {
        "query_key_value": (2 * keys + values, model.d_model),
        "output": (model.d_model, values),
    }
    to_memory: dict[str, Shape] = {
        "query": (keys, model.d_model),
        "key_value": (keys + values, model.d_model),
        "output": (model.d_model, values),
    }
    feed_forward: dict[str, Shape] = {
        "inner": (inner, model.d_model),
        "output": (model.d_model, model.d_ff),
    }
    if not cross_attention:
        return {"attention": self_attention, "feed_forward": feed_forward}
    return {
        "self_attention": self_attention,
        "cross_attention": to_memory,
        "feed_forward": feed_forward,
    }


def _list_stack(
    stack: str, model: Model, num_layers: int, *, cross_attention: bool = False
) -> dict[str, Shape]:
    of_layer: dict[str, Shape] = {}
    for sublayer, maps in _list_sublayers(model, cross_attention=cross_attention).items():
        for name, shape in maps.items():
            of_layer |= _with_bias(f"{sublayer}.{name}", shape)
        of_layer |= _with_bias(f"{sublayer}_norm", (model.d_model,))
    shapes = {
        f"{stack}.layers.{index}.{name}": shape
        for index in range(num_layers)
        for name, shape in of_layer.items()
    }
    if model.norm == "pre":
        shapes |= _with_bias(f"{stack}.final_norm", (model.d_model,))
    return shapes


def _with_bias(name: str, shape: Shape) -> Iterator[tuple[str, Shape]]:
    """Yields the weight and the bias of a linear map or a norm."""
    yield f"{name}.weight", shape
    yield f"{name}.bias", shape[:1]
