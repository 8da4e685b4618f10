"""Language detection among the served languages, by py3langid."""

from collections.abc import Collection
from dataclasses import dataclass

from mtkit.checks.language import name_label, open_identifier

SAMPLE_CHARACTERS = 4_000
"""More text doesn't improve the result."""


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
    labels = {code: name_label(code) for code in languages}
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
