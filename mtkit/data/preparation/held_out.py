"""Development and test sets as pairs, or as lines of one language."""

from collections.abc import Iterator
from typing import Literal

from mtkit.data.sources.corpora import Pair, read_pairs, read_text, require_parallel, without_tag
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import HeldOutCorpus
from mtkit.recipe.data import Data
from mtkit.recipe.text_corpora import TextCorpus, TextTableCorpus


def read_held_out(
    data: Data,
    corpus: HeldOutCorpus,
    split: Literal["dev", "test"],
    *,
    is_tagged: bool = False,
) -> Iterator[Pair]:
    """Yields the pairs of a development or test set, with its tag or without.

    Args:
        data: The section whose languages and trees it has.
        corpus: The recipe's entry.
        split: What the embedded corpus stands for here.
        is_tagged: Whether sources begin with the entry's tag.
    """
    parallel = require_parallel(corpus)
    return read_pairs(
        parallel if is_tagged else without_tag(parallel),
        phrasebook_split=split,
        languages=data.languages,
        linearization=data.linearization,
    )


def read_held_out_rows(
    data: Data, corpus: HeldOutCorpus, split: Literal["dev", "test"]
) -> Iterator[tuple[str, ...]]:
    """Yields the pairs of a development or test set without its tag, or lines of one language.

    Args:
        data: The section whose languages and trees it has.
        corpus: The recipe's entry.
        split: What the embedded corpus stands for here.

    Raises:
        MtkitError: It can't be read; a development set in one language has no line of text.
    """
    if isinstance(corpus, TextCorpus | TextTableCorpus):
        lines, _ = read_text(corpus)
        if split == "dev" and not lines:
            raise MtkitError("data.dev: no text in it, only blank lines", "is this the right file?")
        yield from ((line,) for line in lines)
    else:
        yield from read_held_out(data, corpus, split)
