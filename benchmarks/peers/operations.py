"""Counts what a training's matrix products take: six operations per weight and token."""

from dataclasses import dataclass
from typing import Any

from mtkit.model.costs import count_operations as operations_of_tokens
from mtkit.recipe.model import Model


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
    per_token = operations_of_tokens(Model(**model), vocab_size)
    pairs = measured["attended_pairs"]
    num_pairs = model["num_encoder_layers"] * pairs["source_source"] + model[
        "num_decoder_layers"
    ] * (pairs["target_source"] + pairs["target_target"])
    return Operations(
        per_token.per_source_token * measured["source_tokens"]
        + per_token.per_target_token * measured["target_tokens"],
        per_token.per_attended_pair * num_pairs,
    )
