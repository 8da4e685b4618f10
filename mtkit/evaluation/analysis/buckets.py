"""Groups a test set's sentences by length, rare words, origin and risk flags."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mtkit.checks.text import is_unspaced, split_folded_words
from mtkit.evaluation.analysis.flags import FLAGS, Flag

_WORD_EDGES = (10, 20, 30, 40, 60)
"""Maximum words of a bucket: a news sentence has about 20, and quality often drops beyond 40 to
60."""
_CHARACTER_EDGES = (15, 30, 45, 60, 90)
"""One and a half times as many: a Chinese word has about that many characters."""
_RARE_PERCENTAGES = (0, 10, 20, 30)
"""Maximum percentage of rare words in a bucket."""
_RARE_IN_TRAINING = 10
"""A word with fewer occurrences in a training text is rare: too few to be learned well."""
_MAX_ORIGINS = 12
"""Maximum buckets by origin; with more origins, as with documents, the smallest share one."""


@dataclass(frozen=True)
class Grouping:
    """A test set in buckets, without empty ones.

    Attributes:
        name: The property that sentences are grouped by, as a heading.
        explanation: The meaning of the buckets' names, as a sentence.
        buckets: Ascending indices of the sentences, by the property that they share, such as
            `11–20`; in display order.
        is_ordered: Whether buckets are in ascending order, so that a line may join them.
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
    lengths = [len(split_folded_words(reference)) for reference in references]
    # An empty reference is among the shortest.
    found = [(names[bisect_left(edges, length)],) for length in lengths]
    return Grouping(
        "Reference length",
        f"{unit.capitalize()} of the reference, without punctuation.",
        _gather(found, names),
        is_ordered=True,
    )


def group_by_rare_words(
    references: Sequence[str], training_text: Iterable[str] | None = None
) -> Grouping:
    """Returns sentences by their reference's share of rare words."""
    # It is the share, because a longer sentence has a rarer rarest word. Words with fewer than 10
    # occurrences in the training text, which is read once, are rare; without that text, words that
    # occur once in the references.
    words = [split_folded_words(reference) for reference in references]
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
    """Returns the counts of only the wanted words."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(word for word in split_folded_words(line) if word in wanted)
    return counts


def group_by_origin(origins: Sequence[str]) -> Grouping:
    """Returns sentences by origin (a domain or a document), in the order of first occurrence."""
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
    """Returns sentences by any system's flags; one with several flags is in several buckets."""
    found = [frozenset[Flag]().union(*of_systems) for of_systems in zip(*flags, strict=True)]
    return Grouping(
        "Risk flags",
        "Sentences flagged for any system; one with several flags counts in each.",
        _gather([flags or ("no flag",) for flags in found], (*FLAGS, "no flag")),
        is_ordered=False,
    )


def _gather(names_of: Sequence[Iterable[str]], names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Returns the non-empty buckets, from the names of each sentence's buckets."""
    indices: dict[str, list[int]] = {name: [] for name in names}
    for index, own in enumerate(names_of):
        for name in own:
            indices[name].append(index)
    return {name: tuple(found) for name, found in indices.items() if found}
