"""Detects text in another language by py3langid, an optional package that loads slowly."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from babel.core import get_global

from mtkit.errors import MtkitError

WIDELY_WRITTEN = (
    "ar", "bg", "bn", "ca", "cs", "da", "de", "el", "en", "es", "et", "fa", "fi", "fr", "he", "hi",
    "hr", "hu", "id", "it", "ja", "ko", "lt", "lv", "ms", "nl", "no", "pl", "pt", "ro", "ru", "sk",
    "sl", "sr", "sv", "sw", "ta", "te", "th", "tr", "uk", "ur", "vi", "zh",
)  # fmt: skip
"""The usual languages of stray text. With all 140 languages of the model, dialects and neighbours
of a pair's own languages would take a tenth of its short or technical lines."""
_LABELS = {"nb": "no", "cmn": "zh", "fil": "tl", "iw": "he", "in": "id"}
"""The model's labels for alternative codes."""


def load_identifier() -> Any:
    """Returns py3langid's identifier of all its languages, or raises an ImportError."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # noqa: PLC0415

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def find_label(language: str, known: Iterable[str]) -> str | None:
    """Returns the model's label of a language such as `de`, `deu` or `zh-TW`; None if unknown."""
    name = name_label(language)
    return name if name in set(known) else None


def name_label(language: str) -> str:
    """Returns the label that the model would have for a language."""
    name = language.replace("-", "_").split("_", 1)[0].lower()
    name = str(get_global("language_aliases").get(name, name))
    return _LABELS.get(name, name)


class OtherLanguage:
    """Detects languages other than an expected one; arguments are the identifier's labels."""

    def __init__(self, expected: str, candidates: Iterable[str]) -> None:
        self.expected = expected
        self._candidates = frozenset({expected, *candidates})

    def find(self, text: str) -> tuple[str, float]:
        """Returns the likeliest language and its probability; an empty string and 0 if expected."""
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
    """Returns the identifier of languages; `what` and `remedy` are for the error without it."""
    try:
        return open_identifier()
    except ImportError as error:
        raise MtkitError(
            f"{what} needs the package py3langid, which isn't installed",
            f'pip install "mtkit[language-id]", or {remedy}',
        ) from error
