"""Weights that training leaves as they are."""

from collections.abc import Sequence

from torch import nn

from mtkit.recipe.training import FrozenPart

_PREFIXES: dict[FrozenPart, tuple[str, ...]] = {
    "embeddings": ("source_embedding.", "target_embedding."),
    "encoder": ("encoder.",),
    "decoder": ("decoder.",),
}


def freeze(model: nn.Module, parts: Sequence[FrozenPart]) -> None:
    """Leaves the weights of some parts of an encoder-decoder, and of no other, without gradient."""
    frozen = list_frozen(model, parts)
    for name, weight in model.named_parameters():
        weight.requires_grad_(name not in frozen)
    assert any(weight.requires_grad for weight in model.parameters()), "a recipe refuses that"


def list_frozen(model: nn.Module, parts: Sequence[FrozenPart]) -> set[str]:
    """Returns the names of the weights that some parts consist of, each under its first name.

    A matrix that embeddings share with the output projection has the embeddings' name.
    """
    prefixes = tuple(prefix for part in parts for prefix in _PREFIXES[part])
    return {name for name, _ in model.named_parameters() if name.startswith(prefixes)}
