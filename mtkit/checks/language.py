"""Detects text in another language by py3langid, which loads slowly."""

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from babel.core import get_global

WIDELY_WRITTEN = (
    "ar", "bg", "bn", "ca", "cs", "da", "de", "el", "en", "es", "et", "fa", "fi", "fr", "he", "hi",
    "hr", "hu", "id", "it", "ja", "ko", "lt", "lv", "ms", "nl", "no", "pl", "pt", "ro", "ru", "sk",
    "sl", "sr", "sv", "sw", "ta", "te", "th", "tr", "uk", "ur", "vi", "zh",
)  # fmt: skip
"""The usual languages of stray text. With all 140 languages of the model, dialects and neighbours
of a pair's own languages would take a tenth of its short or technical lines."""
CONFUSED = (
    frozenset({"bs", "hr", "sr"}),
    frozenset({"da", "nb", "nn", "no"}),
    frozenset({"id", "ms"}),
    frozenset({"cs", "sk"}),
    frozenset({"gl", "pt"}),
)
"""Languages that the model confuses in single sentences, and readers sometimes do."""
MIN_CHARACTERS = 15
"""Too many shorter lines are misidentified."""
_LOADING = threading.Lock()
_MIN_SHARE = 0.02
"""Minimum share of an unknown language's lines with a label for it to be one of the language's."""
_MIN_VOTES = 20
"""Fewer lines don't show a text's language."""
_LABELS = {
    "nb": "no", "cmn": "zh", "fil": "tl", "iw": "he", "in": "id", "ki": "kik", "gn": "gug",
}  # fmt: skip
"""The model's labels for alternative codes."""


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
    """Detects languages other than the expected ones; arguments are the identifier's labels."""

    def __init__(self, expected: Iterable[str], candidates: Iterable[str]) -> None:
        self.expected = frozenset(expected)
        self._candidates = self.expected.union(candidates)

    def find(self, text: str) -> tuple[str, float]:
        """Returns the best language and its probability; an empty string and 0 if expected."""
        ranked = [each for each in open_identifier().rank(text) if each[0] in self._candidates]
        total = sum(probability for _, probability in ranked)
        best, probability = ranked[0]
        return ("", 0.0) if best in self.expected or not total else (best, probability / total)


def find_own_labels(language: str, lines: Iterable[str]) -> frozenset[str]:
    """Returns the model's labels of a language: its own, or those that the model gives its lines.

    The model has no label for most languages, and takes their lines for related ones.
    """
    known = open_identifier()
    if label := find_label(language, known.labels):
        return frozenset({label})
    counts = Counter(known.classify(line)[0] for line in lines if len(line) >= MIN_CHARACTERS)
    min_count = _MIN_SHARE * counts.total()
    return frozenset(label for label, count in counts.items() if count >= min_count)


def find_majority_language(lines: Sequence[str]) -> tuple[str, float]:
    """Returns the label of the language that most of some lines are in, and their share.

    The label is empty if no language has more than half of the lines.
    """
    known = open_identifier()
    votes = Counter(known.classify(line)[0] for line in lines if len(line) >= MIN_CHARACTERS)
    if votes.total() < _MIN_VOTES:
        return "", 0.0
    [(label, count)] = votes.most_common(1)
    share = count / votes.total()
    return (str(label), share) if share > 1 / 2 else ("", 0.0)


def open_identifier() -> Any:
    """Returns py3langid's identifier of all its languages, loaded once, in half a second."""
    # `cache` alone loads it once for each thread that comes before the first is done.
    with _LOADING:
        return _load_identifier()


@cache
def _load_identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # noqa: PLC0415

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
