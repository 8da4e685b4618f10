"""Counts what a training's matrix products take: six operations per weight and token."""

from dataclasses import dataclass
from typing import Any

_PER_PRODUCT = 6
"""A multiplication and an addition, once forward and twice backward."""


@dataclass(frozen=True)
class Operations:
    """Operations of some updates.

    Attributes:
        products: Of all weights with the tokens that pass through them. Embeddings count once, as
            the output projection: a look-up takes none.
        attention: Of queries with keys, and of attention weights with values.
    """

    products: int
    attention: int


def count_operations(
    model: dict[str, Any], vocab_size: int, measured: dict[str, Any]
) -> Operations:
    """Returns the operations of what a worker measured; padding counts for nothing.

    Args:
        model: The recipe's section.
        vocab_size: Pieces of the target.
        measured: The line that a worker printed.
    """
    width, heads = model["d_model"], model["num_heads"]
    keys, values = heads * model["d_key"], heads * model["d_value"]
    attention = width * (2 * keys + values) + values * width
    memory = width * (keys + values)
    feed_forward = (3 if model["activation"] == "swiglu" else 2) * width * model["d_ff"]
    num_encoder, num_decoder = model["num_encoder_layers"], model["num_decoder_layers"]
    per_source = num_encoder * (attention + feed_forward) + num_decoder * memory
    per_target = num_decoder * (2 * attention - memory + feed_forward) + vocab_size * width
    pairs = measured["attended_pairs"]
    num_pairs = num_encoder * pairs["source_source"] + num_decoder * (
        pairs["target_source"] + pairs["target_target"]
    )
    return Operations(
        _PER_PRODUCT
        * (per_source * measured["source_tokens"] + per_target * measured["target_tokens"]),
        _PER_PRODUCT * (keys + values) * num_pairs,
    )
