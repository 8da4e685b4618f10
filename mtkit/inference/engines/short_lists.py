"""Short lists of a translator: its table, and the tokens that a batch of sources may need."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import torch

from mtkit.errors import MtkitError
from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.search.batch_vocabulary import BatchVocabulary
from mtkit.model.config import check_translates
from mtkit.model.folder import LoadedModel
from mtkit.recipe.inference import Inference
from mtkit.text.shortlist import Shortlist


def open_shortlist(
    folder: Path, settings: Inference, loaded: Sequence[LoadedModel]
) -> Shortlist | None:
    """Returns the table in the first model's folder, where `inference.shortlist` asks for it.

    Raises:
        MtkitError: There is none, or the models or other settings have no use for it.
    """
    limits = settings.shortlist
    if limits is None:
        return None
    for each in loaded:
        check_translates(each.config, "inference.shortlist")
    if settings.fusion is not None:
        raise MtkitError(
            "inference.fusion has a language model choose among all pieces, and "
            "inference.shortlist allows a few",
            "remove one: --set '~inference.shortlist'",
        )
    table = Shortlist.load(folder, loaded[0].config.vocab_sizes)
    return table.limit(limits.frequent, limits.translations)


def list_vocabulary(
    table: Shortlist, sources: Sequence[EncodedSource], vocab_size: int, device: torch.device
) -> BatchVocabulary:
    """Returns the tokens that outputs of these sources may have: their lists, and what they need.

    Args:
        table: The table of translations.
        sources: The batch.
        vocab_size: Number of target pieces.
        device: Where the search runs.
    """
    is_listed = table.find([source.tokens for source in sources], vocab_size)
    for row, source in zip(is_listed, sources, strict=True):
        row[list(source.forced)] = True
        row[list(chain.from_iterable(source.required))] = True
    return BatchVocabulary.of(is_listed, device)
