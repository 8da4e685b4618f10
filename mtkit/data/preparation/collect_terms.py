"""Collects the terms of the cleaned pairs and counts their translations, from alignments."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mtkit.console import show_progress
from mtkit.data.augmentation.aligned_terms import (
    CommonWords,
    LinkedPair,
    TermLexicon,
    find_linked_terms,
)
from mtkit.data.preparation.align_text import list_text_and_names
from mtkit.data.preparation.facts import TermFacts
from mtkit.data.preparation.stage import LEXICON_FILE, Preparation, Stage
from mtkit.data.preparation.text_store import ALIGNMENT_COLUMN, TextPart, TextStore
from mtkit.data.preparation.tokenize_pairs import choose_words
from mtkit.data.word_alignment.word_table import find_aligned_words
from mtkit.errors import MtkitError
from mtkit.files import digest_file

MIN_PAIRS = 100
"""With fewer, statistics don't show which words are translations."""
_COMMON_SHARE = 0.02
"""Words in a larger share of the pairs aren't terms: they are mostly function words."""
_MAX_COUNTS = 200_000
"""Words, or terms with their translations, counted at a time; limits memory."""

Counts = Counter[tuple[str, str]]


class PartWords:
    """Counts the pairs of a part that contain each word, by side; created once per process."""

    def __init__(self, text: Path) -> None:
        self._text = TextStore(text)

    def __call__(self, part: TextPart) -> tuple[int, Counts]:
        """Returns the number of pairs, and the counts by side and word."""
        rows = self._text.read_unique(part)
        counts: Counts = Counter()
        for side in ("source", "target"):
            for line in rows.column(side).to_pylist():
                words = {line[start:end].casefold() for start, end in find_aligned_words(line)}
                counts.update((side, word) for word in words)
        return rows.num_rows, counts


class PartTerms:
    """Counts the terms of a part with their translations; created once per process.

    Args:
        text: Folder of the text store.
        alignments: Folder of the store of the pairs' alignments.
        names_alignments: For each corpus, whether it has its own alignments.
        common: Words that aren't terms.
    """

    def __init__(
        self, text: Path, alignments: Path, names_alignments: Sequence[bool], common: CommonWords
    ) -> None:
        self._names_alignments, self._common = names_alignments, common
        self._text, self._alignments = TextStore(text), TextStore(alignments)

    def __call__(self, part: TextPart) -> tuple[int, Counts]:
        """Returns the number of pairs, and of pairs with each lower-case term and translation."""
        text, links = self._text.read_unique(part), self._alignments.read_unique(part)
        find_words = choose_words(is_own=self._names_alignments[part.corpus])
        counts: Counts = Counter()
        for source, target, line in zip(
            text.column("source").to_pylist(),
            text.column("target").to_pylist(),
            links.column(ALIGNMENT_COLUMN).to_pylist(),
            strict=True,
        ):
            found = find_linked_terms(LinkedPair(source, target, line, find_words), self._common)
            counts.update(
                {
                    (source[slice(*term.source)].casefold(), target[slice(*term.target)])
                    for term in found
                }
            )
        return text.num_rows, counts


def collect_terms(preparation: Preparation, folder: Path) -> TermFacts:
    """Writes the lexicon of the cleaned pairs; it doesn't depend on the number of workers."""
    text, alignments = preparation.text, preparation.draft / "alignment"
    num_pairs = sum(int(np.count_nonzero(part.is_unique)) for part in preparation.list_parts())
    if num_pairs < MIN_PAIRS:
        raise _refuse(
            f"aligns the pairs, and {num_pairs:,} are too few: it needs at least {MIN_PAIRS}"
        )

    def count(build: partial[PartWords] | partial[PartTerms], what: str) -> Counts:
        counted = preparation.executor.run(build, preparation.list_parts())
        return add_up(show_progress(counted, what), max_counts=_MAX_COUNTS)

    words = count(partial(PartWords, text), "counting words")
    frequent = {key for key, number in words.items() if number > _COMMON_SHARE * num_pairs}
    common = (
        frozenset(word for side, word in frequent if side == "source"),
        frozenset(word for side, word in frequent if side == "target"),
    )
    translations: defaultdict[str, dict[str, int]] = defaultdict(dict)
    build = partial(PartTerms, text, alignments, preparation.data.names_alignments, common)
    for (term, translation), number in count(build, "counting terms").items():
        translations[term][translation] = number
    if not translations:
        raise _refuse(f"found no words in {num_pairs:,} pairs that are translations of each other")
    TermLexicon(common, translations).save(folder / LEXICON_FILE)
    return {"terms": len(translations), "digest": [digest_file(folder / LEXICON_FILE)]}


def add_up(counted: Iterable[Counts], *, max_counts: int) -> Counts:
    """Returns the sum of counts in a fixed order, without the smallest if there are too many.

    As in lossy counting (Manku and Motwani 2002), only rare keys are dropped on the way.
    """
    total: Counts = Counter()
    least = 1
    for counts in counted:
        total.update(counts)
        while len(total) > max_counts:
            total = Counter({key: number for key, number in total.items() if number > least})
            least += 1
    return total


def _refuse(what: str) -> MtkitError:
    return MtkitError(
        f"data.augment.terms without a dictionary {what}",
        "name a glossary by data.augment.terms.dictionary, or remove the section",
    )


def _depends(preparation: Preparation) -> list[Any]:
    return [*list_text_and_names(preparation), preparation.found["alignment"]["digest"]]


TERMS = Stage("terms", collect_terms, _depends, lambda preparation: preparation.data.aligns_terms)
