"""Weights that training doesn't change."""

from collections.abc import Sequence

from torch import nn

from mtkit.model.parameters import find_part
from mtkit.recipe.training import FrozenPart


def freeze(model: nn.Module, parts: Sequence[FrozenPart]) -> None:
    """Sets the weights of some parts, and of no other, to take no gradient."""
    frozen = list_frozen(model, parts)
    for name, weight in model.named_parameters():
        weight.requires_grad_(name not in frozen)
    assert any(weight.requires_grad for weight in model.parameters()), "a recipe refuses that"


def list_frozen(model: nn.Module, parts: Sequence[FrozenPart]) -> set[str]:
    """Returns the names of the weights of some parts, each under its first name.

    A matrix that embeddings share with the output projection has the embeddings' name.
    """
    if not parts:
        return set()
    return {name for name, _ in model.named_parameters() if find_part(name) in parts}
