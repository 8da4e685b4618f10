"""Language detection among the served languages, by py3langid."""

from collections.abc import Collection
from dataclasses import dataclass

from mtkit.checks.language import open_identifier
from mtkit.text.languages import find_main_code

SAMPLE_CHARACTERS = 4_000
"""More text doesn't improve the result."""
_LABELS = {"nb": "no", "nn": "no", "fil": "tl", "ki": "kik", "gn": "gug"}
"""py3langid's labels of languages that may lack their own."""


@dataclass(frozen=True)
class Detected:
    """A language that a text may be in.

    Attributes:
        language: Its code, as models call it.
        confidence: Probability among all languages of py3langid, in percent.
    """

    language: str
    confidence: float


def detect_language(text: str, languages: Collection[str]) -> list[Detected]:
    """Returns the possible languages of a text, best first; at least one of those given."""
    # A text without letters may be in any language.
    known = set(open_identifier().labels)
    labels = {code: _label(code, known) for code in languages}
    if not any(map(str.isalpha, text)):
        return [Detected(next(iter(languages)), 0.0)]
    ranked = dict(open_identifier().rank(text[:SAMPLE_CHARACTERS]))
    found = [
        Detected(code, float(round(100.0 * float(ranked[label]))))
        for code, label in labels.items()
        if label in known
    ]
    found.sort(key=lambda each: -each.confidence)
    return found or [Detected(next(iter(languages)), 0.0)]


def _label(code: str, known: Collection[str]) -> str:
    main = find_main_code(code)
    return main if main in known else _LABELS.get(main, main)
