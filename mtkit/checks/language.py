"""Text in another language, by py3langid."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from mtkit.errors import MtkitError
from mtkit.text.language_identification import load_identifier


class OtherLanguage:
    """Tells other languages from an expected one.

    Args:
        expected: The identifier's label of the language that text should be in.
        candidates: Labels of the languages that it may be in instead.
    """

    def __init__(self, expected: str, candidates: Iterable[str]) -> None:
        self.expected = expected
        self._candidates = frozenset({expected, *candidates})

    def find(self, text: str) -> tuple[str, float]:
        """Returns the likeliest language and its probability; nothing and 0 for the expected."""
        identifier = open_identifier()
        ranked = [each for each in identifier.rank(text) if each[0] in self._candidates]
        total = sum(probability for _, probability in ranked)
        best, probability = ranked[0]
        return ("", 0.0) if best == self.expected or not total else (best, probability / total)


@cache
def open_identifier() -> Any:
    """Returns the identifier of languages, loaded once."""
    return load_identifier()


def require_identifier(what: str, remedy: str) -> Any:
    """Returns the identifier of languages.

    Args:
        what: What needs it, for the error.
        remedy: What does without it, for the hint.

    Raises:
        MtkitError: The package isn't installed.
    """
    try:
        return open_identifier()
    except ImportError as error:
        raise MtkitError(
            f"{what} needs the package py3langid, which isn't installed",
            f'pip install "mtkit[language-id]", or {remedy}',
        ) from error
