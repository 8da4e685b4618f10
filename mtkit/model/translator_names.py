"""A translator's weights by transformers' names: one table, for import and export.

Marian, M2M100 and Pegasus name theirs alike. Rows of embeddings are in another order there, which
is told apart from the names.
"""

from collections.abc import Iterator

from mtkit.model.config import ModelConfig
from mtkit.model.transformers_names import Counterpart, split_layer

SHARED = "model.shared.weight"
"""The one matrix of all embeddings, where they are tied."""
SOURCE_EMBEDDING = "model.encoder.embed_tokens.weight"
TARGET_EMBEDDING = "model.decoder.embed_tokens.weight"
OUTPUT = "lm_head.weight"
OUTPUT_BIAS = "final_logits_bias"
"""[1, pieces]."""
POSITIONS = {
    "source_embedding": "model.encoder.embed_positions.weight",
    "target_embedding": "model.decoder.embed_positions.weight",
}
"""Fixed waves, which files may hold."""

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


def list_translator_counterparts(config: ModelConfig) -> list[Counterpart]:
    """Returns the counterparts of all weights of a translator whose rows aren't pieces."""
    return list(_find_counterparts(config))


def find_embeddings(config: ModelConfig) -> dict[str, tuple[str, ...]]:
    """Returns their names of our matrices whose rows are pieces: the first one is in every file."""
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


def _find_counterparts(config: ModelConfig) -> Iterator[Counterpart]:
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
