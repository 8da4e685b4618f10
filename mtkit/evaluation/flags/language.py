"""Which languages a translation is judged by."""

import unicodedata
from functools import lru_cache

from mtkit.checks.language import OtherLanguage, open_identifier
from mtkit.text.language_identification import WIDELY_WRITTEN, find_label

_MAX_CHARACTERS = 4_000
"""More of a text tells nothing new."""
_ALIKE = (
    frozenset({"bs", "hr", "sr"}),
    frozenset({"da", "nb", "nn", "no"}),
    frozenset({"id", "ms"}),
    frozenset({"cs", "sk"}),
    frozenset({"gl", "pt"}),
)
"""Languages that the model confuses in single sentences, and readers sometimes do."""


@lru_cache(maxsize=64)
def expect_language(source_language: str, target_language: str) -> OtherLanguage | None:
    """Returns what tells other languages from a translation's; None where it can't be identified.

    Args:
        source_language: Code of the source's language; empty where it isn't known.
        target_language: Code of the translation's.
    """
    known = open_identifier().labels
    expected = find_label(target_language, known)
    if expected is None:
        return None
    alike = frozenset[str]().union(*(group for group in _ALIKE if expected in group))
    source = find_label(source_language, known) if source_language else None
    return OtherLanguage(expected, {*WIDELY_WRITTEN} - alike | ({source} if source else set()))


def lower_shouting(text: str) -> str:
    """Returns a text without the capitals of words all in capitals: they are like no language's."""
    text = unicodedata.normalize("NFC", text[:_MAX_CHARACTERS])
    return " ".join(word.lower() if word.isupper() else word for word in text.split())
