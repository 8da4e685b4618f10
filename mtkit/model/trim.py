"""Trims a model to the pieces that some text uses."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from mtkit.errors import MtkitError
from mtkit.model.config import OpenedFolder
from mtkit.model.parameters import find_rows
from mtkit.text.trim_vocabulary import trim_vocabulary


def trim_model(
    opened: OpenedFolder, weights: Mapping[str, Tensor], lines: Iterable[str]
) -> tuple[OpenedFolder, dict[str, Tensor]]:
    """Returns a model with only the pieces that lines use, and those that every model needs.

    Its logits for these pieces are unchanged, as long as its input has no others. `lines` should
    cover all languages to keep.
    """
    lines = list(lines)
    if not any(line.strip() for line in lines):
        raise MtkitError(
            "the text for choosing the pieces to keep is empty",
            "name text of the languages that are to stay",
        )
    trimmed = trim_vocabulary(opened.tokenizer, lines)
    rows = {
        "source pieces": torch.tensor(trimmed.source),
        "target pieces": torch.tensor(trimmed.target),
    }
    kept = {
        name: weight[rows[kind]] if (kind := find_rows(name)) in rows else weight
        for name, weight in weights.items()
    }
    sizes = {"source_vocab_size": len(trimmed.source), "target_vocab_size": len(trimmed.target)}
    config = opened.config.model_copy(update=sizes)
    return OpenedFolder(trimmed.tokenizer, opened.settings, config), kept
