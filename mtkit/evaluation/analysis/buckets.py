"""Sentences of a test set in groups: by length, rare words, origin and risk flags."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mtkit.checks.words import is_unspaced, split_words
from mtkit.evaluation.analysis.flags import FLAGS, Flag

_WORD_EDGES = (10, 20, 30, 40, 60)
"""Max words of a bucket: a news sentence has about 20, and quality often drops beyond 40 to 60."""
_CHARACTER_EDGES = (15, 30, 45, 60, 90)
"""One and a half times as many: a Chinese word has about so many characters."""
_RARE_PERCENTAGES = (0, 10, 20, 30)
"""Max percent of rare words of a bucket."""
_RARE_IN_TRAINING = 10
"""Occurrences in a training text below which a word is rare: seen too seldom to be learnt well."""
_MAX_ORIGINS = 12
"""Buckets by origin; where there are more, as with a document each, the smallest share one."""


@dataclass(frozen=True)
class Grouping:
    """A test set in buckets; those without a sentence are left out.

    Attributes:
        name: The property that sentences are grouped by, as a heading.
        explanation: The meaning of the buckets' names, as a sentence.
        buckets: Indices of the sentences of each, rising, by the property that they share, such as
            `11–20`; in the order to show them.
        is_ordered: Whether buckets rise from one to the next, so that a line may join them.
    """

    name: str
    explanation: str
    buckets: dict[str, tuple[int, ...]]
    is_ordered: bool


def group_by_length(references: Sequence[str]) -> Grouping:
    """Returns sentences by their reference's length in words, or in characters without spaces."""
    counts_characters = is_unspaced(references)
    edges = _CHARACTER_EDGES if counts_characters else _WORD_EDGES
    unit = "characters" if counts_characters else "words"
    names = [
        *(f"{low + 1}–{high}" for low, high in pairwise((0, *edges))),
        f"over {edges[-1]}",
    ]
    lengths = [len(split_words(reference)) for reference in references]
    # An empty reference is among the shortest.
    found = [(names[bisect_left(edges, length)],) for length in lengths]
    return Grouping(
        "Reference length",
        f"{unit.capitalize()} of the reference, punctuation not counted.",
        _gather(found, names),
        is_ordered=True,
    )


def group_by_rare_words(
    references: Sequence[str], training_text: Iterable[str] | None = None
) -> Grouping:
    """Returns sentences by the share of rare words in their reference.

    It is the share, since the rarest word of a sentence is the rarer the longer the sentence.

    Args:
        references: One per sentence.
        training_text: Target side of what a system was trained on, read once: words that occur in
            it less than 10 times are rare. Without it, words that occur once in the references are.
    """
    words = [split_words(reference) for reference in references]
    counts = Counter(word for sentence in words for word in sentence)
    min_count = 2
    explanation = "Percent of the reference's words that occur once in this test set's references."
    if training_text is not None:
        counts = _count_words(training_text, frozenset(counts))
        min_count = _RARE_IN_TRAINING
        explanation = (
            f"Percent of the reference's words that occur fewer than {min_count} times in the "
            "training text."
        )
    names = [
        "none",
        *(f"≤ {high} %" for high in _RARE_PERCENTAGES[1:]),
        f"> {_RARE_PERCENTAGES[-1]} %",
    ]
    found = []
    for sentence in words:
        num_rare = sum(counts[word] < min_count for word in sentence)
        percentage = 100 * num_rare / max(1, len(sentence))
        found.append((names[bisect_left(_RARE_PERCENTAGES, percentage)],))
    return Grouping("Rare words", explanation, _gather(found, names), is_ordered=True)


def _count_words(lines: Iterable[str], wanted: frozenset[str]) -> Counter[str]:
    """Returns the counts of the wanted words alone."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(word for word in split_words(line) if word in wanted)
    return counts


def group_by_origin(origins: Sequence[str]) -> Grouping:
    """Returns sentences by where they come from, in the order in which origins first occur.

    Args:
        origins: Name of a domain, or of a document, one per sentence.
    """
    sizes = Counter(origins)
    names = list(sizes)
    if len(names) > _MAX_ORIGINS:
        largest = {name for name, _ in sizes.most_common(_MAX_ORIGINS - 1)}
        num_others = len(names) - len(largest)
        names = [*(name for name in names if name in largest), f"{num_others:,} others"]
    found = [(origin if origin in names else names[-1],) for origin in origins]
    explanation = "Where the sentence comes from."
    return Grouping("Origin", explanation, _gather(found, names), is_ordered=False)


def group_by_flags(flags: Sequence[Sequence[frozenset[Flag]]]) -> Grouping:
    """Returns sentences by the risk flags that any system's translation has.

    A sentence with several flags is in several buckets; one without is in the last.

    Args:
        flags: Of each system, one set per sentence.
    """
    found = [frozenset[Flag]().union(*of_systems) for of_systems in zip(*flags, strict=True)]
    return Grouping(
        "Risk flags",
        "Sentences flagged for any system; one with several flags counts in each.",
        _gather([flags or ("no flag",) for flags in found], (*FLAGS, "no flag")),
        is_ordered=False,
    )


def _gather(names_of: Sequence[Iterable[str]], names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Returns the buckets that have a sentence, given the names of each sentence's buckets."""
    indices: dict[str, list[int]] = {name: [] for name in names}
    for index, own in enumerate(names_of):
        for name in own:
            indices[name].append(index)
    return {name: tuple(found) for name, found in indices.items() if found}
