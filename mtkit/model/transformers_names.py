"""A language model's weights by transformers' names: one table, for import and export.

GPT is `OpenAIGPTLMHeadModel`. BERT is `BertForPreTraining`, or `BertForMaskedLM` without a pair
head.

Marian, M2M100 and Pegasus share their names. Their embeddings' rows have another order, which is
handled separately.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from mtkit.model.config import ModelConfig
from mtkit.model.parameters import Shape
from mtkit.model.transformers_config import check_transformers

SECOND_NAMES = {
    "transformer.tokens_embed.weight": "lm_head.weight",
    "bert.embeddings.word_embeddings.weight": "cls.predictions.decoder.weight",
    "cls.predictions.bias": "cls.predictions.decoder.bias",
}
"""Second names of tied weights, by the first name, which files use."""

_OF_GPT = {
    "target_embedding.tokens": "transformer.tokens_embed",
    "target_embedding.positions": "transformer.positions_embed",
}
_OF_GPT_LAYER = {
    "attention.query_key_value": "attn.c_attn",
    "attention.output": "attn.c_proj",
    "attention_norm": "ln_1",
    "feed_forward.inner": "mlp.c_fc",
    "feed_forward.output": "mlp.c_proj",
    "feed_forward_norm": "ln_2",
}
_OF_BERT = {
    "source_embedding.tokens": "bert.embeddings.word_embeddings",
    "source_embedding.positions": "bert.embeddings.position_embeddings",
    "source_embedding.segments": "bert.embeddings.token_type_embeddings",
    "source_embedding.norm": "bert.embeddings.LayerNorm",
    "masked_head.dense": "cls.predictions.transform.dense",
    "masked_head.norm": "cls.predictions.transform.LayerNorm",
    "pooler": "bert.pooler.dense",
    "next_sentence": "cls.seq_relationship",
}
_OF_BERT_LAYER = {
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feed_forward.inner": "intermediate.dense",
    "feed_forward.output": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}
_BERT_QUERY_KEY_VALUE = tuple(f"attention.self.{name}" for name in ("query", "key", "value"))
SHARED = "model.shared.weight"
"""The one matrix of all tied embeddings."""
SOURCE_EMBEDDING = "model.encoder.embed_tokens.weight"
TARGET_EMBEDDING = "model.decoder.embed_tokens.weight"
OUTPUT = "lm_head.weight"
OUTPUT_BIAS = "final_logits_bias"
"""[1, pieces]."""
POSITIONS = {
    "source_embedding": "model.encoder.embed_positions.weight",
    "target_embedding": "model.decoder.embed_positions.weight",
}
"""Fixed sinusoids, which files may hold."""
_PARTS = {
    "attention.query_key_value": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.output": ("self_attn.out_proj",),
    "attention_norm": ("self_attn_layer_norm",),
    "cross_attention.query": ("encoder_attn.q_proj",),
    "cross_attention.key_value": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "cross_attention.output": ("encoder_attn.out_proj",),
    "cross_attention_norm": ("encoder_attn_layer_norm",),
    "feed_forward.inner": ("fc1",),
    "feed_forward.output": ("fc2",),
    "feed_forward_norm": ("final_layer_norm",),
}


@dataclass(frozen=True)
class Counterpart:
    """A weight's counterpart in transformers.

    Attributes:
        origin: mtkit's name.
        names: transformers' names; several if mtkit's weight is a stack of theirs, in equal parts.
        is_transposed: Whether theirs is [features in, features out].
    """

    origin: str
    names: tuple[str, ...]
    is_transposed: bool = False


def list_counterparts(config: ModelConfig) -> list[Counterpart]:
    """Returns the counterparts of all weights of a language model."""
    check_transformers(config)
    find = _find_in_gpt if config.objective == "causal-lm" else _find_in_bert
    return [find(name, len(shape) == 2) for name, shape in config.list_shapes().items()]


def convert_to_transformers(
    weights: Mapping[str, Tensor], counterparts: Iterable[Counterpart]
) -> dict[str, Tensor]:
    """Returns mtkit's weights by transformers' names, contiguous."""
    found: dict[str, Tensor] = {}
    for one in counterparts:
        parts = weights[one.origin].chunk(len(one.names))
        for name, part in zip(one.names, parts, strict=True):
            found[name] = (part.T if one.is_transposed else part).contiguous()
    return found


def convert_shapes(
    shapes: Mapping[str, Shape], counterparts: Iterable[Counterpart]
) -> dict[str, Shape]:
    """Returns the shapes of `convert_to_transformers`' result."""
    found: dict[str, Shape] = {}
    for one in counterparts:
        rows, *columns = shapes[one.origin]
        part = (rows // len(one.names), *columns)
        found |= dict.fromkeys(one.names, part[::-1] if one.is_transposed else part)
    return found


def convert_to_mtkit(
    tensors: Mapping[str, Tensor], counterparts: Iterable[Counterpart]
) -> dict[str, Tensor]:
    """Returns transformers' weights by mtkit's names, contiguous; others are dropped."""
    found: dict[str, Tensor] = {}
    for one in counterparts:
        parts = [tensors[name].T if one.is_transposed else tensors[name] for name in one.names]
        found[one.origin] = torch.cat(parts).contiguous()
    return found


def _find_in_gpt(origin: str, is_matrix: bool) -> Counterpart:
    owner, _, kind = origin.rpartition(".")
    if owner in _OF_GPT:
        return Counterpart(origin, (f"{_OF_GPT[owner]}.{kind}",))
    index, part = split_layer(owner, "decoder")
    name = f"transformer.h.{index}.{_OF_GPT_LAYER[part]}.{kind}"
    # GPT's linear maps are convolutions of width 1.
    return Counterpart(origin, (name,), is_transposed=is_matrix)


def _find_in_bert(origin: str, is_matrix: bool) -> Counterpart:
    owner, _, kind = origin.rpartition(".")
    if origin == "output_bias":
        return Counterpart(origin, ("cls.predictions.bias",))
    if owner in _OF_BERT:
        return Counterpart(origin, (f"{_OF_BERT[owner]}.{kind}",))
    index, part = split_layer(owner, "encoder")
    parts = (
        _BERT_QUERY_KEY_VALUE if part == "attention.query_key_value" else (_OF_BERT_LAYER[part],)
    )
    return Counterpart(origin, tuple(f"bert.encoder.layer.{index}.{each}.{kind}" for each in parts))


def split_layer(owner: str, stack: str) -> tuple[str, str]:
    """Splits a module's name in a stack into the layer's index and the rest."""
    index, _, part = owner.removeprefix(f"{stack}.layers.").partition(".")
    return index, part


def find_embeddings(config: ModelConfig) -> dict[str, tuple[str, ...]]:
    """Returns transformers' names of matrices whose rows are pieces; the first is in every file."""
    match config.model.tied_embeddings:
        case "three-way":
            names = (SHARED, SOURCE_EMBEDDING, TARGET_EMBEDDING, OUTPUT)
            return {"source_embedding.tokens.weight": names}
        case "decoder":
            return {
                "source_embedding.tokens.weight": (SOURCE_EMBEDDING,),
                "target_embedding.tokens.weight": (TARGET_EMBEDDING, OUTPUT),
            }
        case "none":
            return {
                "source_embedding.tokens.weight": (SOURCE_EMBEDDING,),
                "target_embedding.tokens.weight": (TARGET_EMBEDDING,),
                "output_embedding.weight": (OUTPUT,),
            }


def list_translator_counterparts(config: ModelConfig) -> Iterator[Counterpart]:
    """Yields the counterparts of all weights of a translator whose rows aren't pieces."""
    for name in config.list_shapes():
        stack, _, rest = name.partition(".")
        if stack not in ("encoder", "decoder"):
            continue
        if rest.startswith("final_norm."):
            yield Counterpart(name, (f"model.{stack}.layer_norm.{rest.rpartition('.')[2]}",))
            continue
        owner, _, kind = name.rpartition(".")
        index, part = split_layer(owner, stack)
        theirs = _PARTS[part.replace("self_attention", "attention")]
        layer = f"model.{stack}.layers.{index}"
        yield Counterpart(name, tuple(f"{layer}.{each}.{kind}" for each in theirs))
