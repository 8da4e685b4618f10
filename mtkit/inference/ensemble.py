"""Models that speak together."""

from collections.abc import Sequence
from pathlib import Path

from mtkit.errors import MtkitError
from mtkit.model.config import OpenedFolder


def check_ensemble(folders: Sequence[Path], opened: Sequence[OpenedFolder]) -> None:
    """Checks that models read and write the same, so that their probabilities can be averaged.

    Raises:
        MtkitError: There is none, or one has other languages or another tokenizer than the first.
    """
    if not opened:
        raise MtkitError("no model folder given", "name one, such as runs/x/model")
    wanted = _list_traits(opened[0])
    for folder, other in zip(folders[1:], opened[1:], strict=True):
        for what, trait in _list_traits(other).items():
            if trait != wanted[what]:
                raise MtkitError(
                    f"{folder} has {what} than {folders[0]}: they can't speak together",
                    "models of an ensemble are trained on the same prepared data, "
                    "with other seeds for example",
                )


def _list_traits(opened: OpenedFolder) -> dict[str, object]:
    """Returns what the models of an ensemble have in common, by what is said where they don't."""
    config, tokenizer = opened.config, opened.tokenizer
    return {
        "another source language": config.source_language,
        "another target language": config.target_language,
        "another tokenizer": tokenizer.models,
        "other tags before its sources": tokenizer.tags,
        "other rules of punctuation": tokenizer.punctuation,
    }
