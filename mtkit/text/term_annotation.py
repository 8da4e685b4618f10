"""Sources that say how words of theirs are to be translated, for a model that has learned it.

Behind a term stands its translation: `a<term0> cat<term1> Katze<term2> sleeps` (arXiv 1906.01105,
the form that appends). Each symbol is one piece of the vocabulary.
"""

from collections.abc import Collection, Sequence

from mtkit.text.vocabulary import Vocabulary
from mtkit.text.words import Span

TERM_SYMBOLS = ("<term0>", "<term1>", "<term2>")
"""Before a term, between it and its translation, and behind that."""


def knows_terms(source_vocabulary: Vocabulary) -> bool:
    """Checks whether a model has the symbols, and so was trained on annotated sources."""
    return all(symbol in source_vocabulary.ids for symbol in TERM_SYMBOLS)


def has_symbols(text: str) -> bool:
    """Checks whether a text holds one of the symbols itself."""
    return any(symbol in text for symbol in TERM_SYMBOLS)


def annotate(text: str, terms: Sequence[tuple[Span, str]], masked: Collection[Span] = ()) -> str:
    """Returns a text with translations behind its terms.

    Args:
        text: The text.
        terms: Where terms stand in it, and their translations; none overlaps another.
        masked: Those of the terms that are left out, so that their translations stand alone.
    """
    first, middle, last = TERM_SYMBOLS
    parts, end = [], 0
    for (start, stop), target in sorted(terms):
        # A symbol stands before the space: behind it the space would be a piece of its own.
        before = text[end:start]
        stripped = before.rstrip(" ")
        parts += [stripped, first]
        if (start, stop) not in masked:
            parts += [before[len(stripped) :], text[start:stop]]
        parts += [middle, " ", target, last]
        end = stop
    return "".join([*parts, text[end:]])
