"""Development and test sets as pairs, or as lines in one language."""

from collections.abc import Iterator
from typing import Literal

from mtkit.data.sources.corpora import (
    Pair,
    read_corpus_pairs,
    read_corpus_text,
    require_parallel,
    without_tag,
)
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
    """Yields the pairs of a development or test set; `split` selects the embedded corpus's part."""
    parallel = require_parallel(corpus)
    return read_corpus_pairs(
        parallel if is_tagged else without_tag(parallel),
        phrasebook_split=split,
        languages=data.languages,
        linearization=data.linearization,
    )


def read_held_out_rows(
    data: Data, corpus: HeldOutCorpus, split: Literal["dev", "test"]
) -> Iterator[tuple[str, ...]]:
    """Yields a development or test set's pairs without tags, or its lines in one language."""
    if isinstance(corpus, TextCorpus | TextTableCorpus):
        lines, _ = read_corpus_text(corpus)
        if split == "dev" and not lines:
            raise MtkitError("data.dev: no text in it, only blank lines", "is this the right file?")
        yield from ((line,) for line in lines)
    else:
        yield from read_held_out(data, corpus, split)
