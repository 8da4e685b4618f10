"""Which language a text is in, by py3langid: its model lies in the package, so nothing is fetched.

The package is optional, and its model takes half a second to load: nothing here imports it before
it is needed.
"""

from collections.abc import Iterable
from typing import Any

from babel.core import get_global

WIDELY_WRITTEN = (
    "ar", "bg", "bn", "ca", "cs", "da", "de", "el", "en", "es", "et", "fa", "fi", "fr", "he", "hi",
    "hr", "hu", "id", "it", "ja", "ko", "lt", "lv", "ms", "nl", "no", "pl", "pt", "ro", "ru", "sk",
    "sl", "sr", "sv", "sw", "ta", "te", "th", "tr", "uk", "ur", "vi", "zh",
)  # fmt: skip
"""What stray text mostly is in. With all 140 languages of the model, dialects and neighbours of a
pair's own languages take a tenth of its short or technical lines."""
_LABELS = {"nb": "no", "cmn": "zh", "fil": "tl", "iw": "he", "in": "id"}
"""The model's name of a language that has another one too."""


def load_identifier() -> Any:
    """Returns py3langid's identifier of all its languages.

    Raises:
        ImportError: The package isn't installed.
    """
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # noqa: PLC0415

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def find_label(language: str, known: Iterable[str]) -> str | None:
    """Returns the model's label of a language; None where it doesn't know it.

    Args:
        language: A code such as `de`, `deu`, `zh-TW` or `deu_Latn`.
        known: The model's labels.
    """
    name = name_label(language)
    return name if name in set(known) else None


def name_label(language: str) -> str:
    """Returns what the model would call a language if it knew it."""
    name = language.replace("-", "_").split("_", 1)[0].lower()
    name = str(get_global("language_aliases").get(name, name))
    return _LABELS.get(name, name)
