"""Whether a translation is in its language, by py3langid."""

import unicodedata
from functools import cache
from typing import Any

from mtkit.errors import MtkitError
from mtkit.text.language_identification import WIDELY_WRITTEN, find_label, load_identifier
from mtkit.text.widths import measure_letters

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


class LanguageCheck:
    """Tells other languages from the one that a translation should be in.

    Args:
        source_language: Code of the source's language; empty where it isn't known.
        target_language: Code of the translation's.
    """

    def __init__(self, source_language: str, target_language: str) -> None:
        identifier = open_identifier()
        known = identifier.labels
        self.label = find_label(target_language, known)
        alike = {name for group in _ALIKE if self.label in group for name in group}
        source = find_label(source_language, known) if source_language else None
        self._candidates = frozenset({*WIDELY_WRITTEN} - alike) | {
            label for label in (source, self.label) if label is not None
        }

    def find_other(self, text: str, min_letters: int) -> tuple[str, float]:
        """Returns the likeliest other language and its probability; 0 for a text too short.

        Args:
            text: The translation.
            min_letters: Letters from which it is judged.
        """
        if self.label is None or measure_letters(text) < min_letters:
            return "", 0.0
        lowered = _lower_shouting(text[:_MAX_CHARACTERS])
        ranked = [
            (label, probability)
            for label, probability in open_identifier().rank(lowered)
            if label in self._candidates
        ]
        total = sum(probability for _, probability in ranked)
        best, probability = ranked[0]
        if best == self.label or not total:
            return "", 0.0
        return best, float(probability / total)


@cache
def open_identifier() -> Any:
    """Returns the identifier of languages, loaded once.

    Raises:
        MtkitError: The package isn't installed.
    """
    try:
        return load_identifier()
    except ImportError as error:
        raise MtkitError(
            "the flag `wrong language` needs the package py3langid, which isn't installed",
            'pip install "mtkit[language-id]", or leave the flag out of inference.flags.names',
        ) from error


def _lower_shouting(text: str) -> str:
    """Returns a text without the capitals of words all in capitals: they are like no language's."""
    text = unicodedata.normalize("NFC", text)
    return " ".join(word.lower() if word.isupper() else word for word in text.split())
