"""Whether a translation's words are the source's."""

from collections import Counter

from mtkit.evaluation.analysis.words import split_text

_MIN_WORDS = 4
"""Fewer than these are too few to judge by: languages share short words and loans."""


def measure_copied(source: str, hypothesis: str) -> float:
    """Returns the share of a translation's words that stand in the source; 0 for a few words.

    Numbers and capitalised words aren't counted: names are rightly copied. Where a script has no
    spaces, each character is a word.
    """
    ours = _list_words(hypothesis)
    if len(ours) < _MIN_WORDS:
        return 0.0
    return (Counter(ours) & Counter(_list_words(source))).total() / len(ours)


def _list_words(text: str) -> list[str]:
    """Returns the words of letters that have no capital, as a name or the first word has."""
    return [piece for piece in split_text(text) if piece.isalpha() and piece == piece.lower()]
