"""Runs all checks of a line's translation, and counts lines by flag."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from mtkit.checks.flag import Flag
from mtkit.checks.language import (
    CONFUSED,
    WIDELY_WRITTEN,
    OtherLanguage,
    find_label,
    open_identifier,
)
from mtkit.checks.numbers import is_often_spelled_out, list_other_numbers
from mtkit.checks.text import (
    compare_lengths,
    count_repeats,
    list_lacking_addresses,
    share_of_words,
    split_text,
)
from mtkit.recipe.flags import FLAG_NAMES, FlagName, Flags
from mtkit.text.widths import measure_letters, measure_width

_MAX_IDENTIFIED = 4_000
"""Longer text gives no more information."""
_MAX_CHARACTERS = 20_000
"""Maximum length of a checked line: the time grows with it."""
_OF_ANY_LENGTH = ("too short", "too long", "unlikely", "poorly covered")
_MIN_WORDS = 4
"""Fewer words are too few to call a copy: languages share short words and loans."""
_MAX_LISTED = 5
"""Maximum numbers or addresses in a message."""
_Finding = tuple[float, float, str]
"""The measured value, the limit that it exceeds, and both in words."""


@lru_cache(maxsize=64)
def expect_language(source_language: str, target_language: str) -> OtherLanguage | None:
    """Returns a detector of languages other than the translation's, or None."""
    known = open_identifier().labels
    expected = find_label(target_language, known)
    if expected is None:
        return None
    alike = frozenset[str]().union(*(group for group in CONFUSED if expected in group))
    source = find_label(source_language, known) if source_language else None
    return OtherLanguage({expected}, {*WIDELY_WRITTEN} - alike | ({source} if source else set()))


def lowercase_all_caps(text: str) -> str:
    """Returns a text with all-capital words lowercased: they confuse the identification."""
    text = unicodedata.normalize("NFC", text[:_MAX_IDENTIFIED])
    return " ".join(word.lower() if word.isupper() else word for word in text.split())


@dataclass(frozen=True)
class ScoredLine:
    """A line and its translation, with a model's information on them.

    Attributes:
        source_language: Code of the source's language; empty if unknown.
        mean_log_probability: Per token of the translation; None without a model.
        coverage: Share of the source's words that are linked to a word of the translation; None
            without alignments.
    """

    source: str
    hypothesis: str
    source_language: str = ""
    target_language: str = ""
    mean_log_probability: float | None = None
    coverage: float | None = None


class FlagFinder:
    """Finds flags by one set of thresholds."""

    def __init__(self, settings: Flags) -> None:
        self._settings = settings

    def find(self, found: ScoredLine) -> tuple[Flag, ...]:
        """Returns a translation's flags, in the order of `FLAG_NAMES`; none for a blank line."""
        if not found.source.strip():
            return ()
        is_long = max(len(found.source), len(found.hypothesis)) > _MAX_CHARACTERS
        return tuple(
            Flag(name, *finding)
            for name in FLAG_NAMES
            if name in self._settings.names and (name in _OF_ANY_LENGTH or not is_long)
            if (finding := self._check(name, found)) is not None
        )

    def _check(self, name: FlagName, found: ScoredLine) -> _Finding | None:
        source, hypothesis, limits = found.source, found.hypothesis, self._settings
        finding: _Finding | None
        match name:
            case "copied":
                text = "{:.0%} of its words are in the source"
                finding = _judge(_measure_copied(source, hypothesis), text, high=limits.max_copied)
            case "wrong language":
                finding = self._check_language(found)
            case "looping":
                repeats, limit = count_repeats(hypothesis, limits.max_repeats), limits.max_repeats
                is_loop = repeats > 1 and repeats > count_repeats(source, limit)
                text = f"the same text {repeats} times in a row"
                finding = (repeats, limit, text) if is_loop else None
            case "too short":
                text, low = "{:.0%} of the expected length", limits.max_ratio
                finding = _judge(self._compare_lengths(found), text, low=1.0 / low)
            case "too long":
                text = "{:.1f} times the expected length"
                finding = _judge(self._compare_lengths(found), text, high=limits.max_ratio)
            case "numbers differ":
                others = list_other_numbers(
                    hypothesis, source, is_often_spelled_out=is_often_spelled_out, reads_times=True
                )
                finding = _judge(len(others), _list(others), high=limits.max_other_numbers)
            case "addresses differ":
                others = list_lacking_addresses(source, hypothesis)
                others += list_lacking_addresses(hypothesis, source)
                others = sorted(set(others), key=lambda each: (len(each), each))
                finding = _judge(len(others), _list(others), high=limits.max_other_addresses)
            case "unlikely":
                text = "a mean log-probability of {:.2f} per token: the model is unsure"
                finding = _judge(found.mean_log_probability, text, low=limits.min_log_probability)
            case "poorly covered":
                text = "{:.0%} of the source's words are linked to one of its words"
                finding = _judge(found.coverage, text, low=limits.min_coverage)
        return finding

    def _check_language(self, found: ScoredLine) -> _Finding | None:
        limits, text = self._settings, found.hypothesis
        if not found.target_language or measure_letters(text) < limits.min_letters:
            return None
        expected = expect_language(found.source_language, found.target_language)
        if expected is None:
            return None
        other, probability = expected.find(lowercase_all_caps(text))
        if not other or probability < limits.min_confidence:
            return None
        names = " or ".join(sorted(expected.expected))
        text = f"it looks like {other} ({probability:.0%}) rather than {names}"
        return probability, limits.min_confidence, text

    def _compare_lengths(self, found: ScoredLine) -> float:
        limits = self._settings
        source, hypothesis = (
            float(measure_width(text.strip())) for text in (found.source, found.hypothesis)
        )
        return compare_lengths(source, hypothesis, limits.length_ratio or 1.0, limits.smoothing)


def _measure_copied(source: str, hypothesis: str) -> float:
    """Returns the share of a translation's words that are in the source; 0 for a few words."""
    # Numbers and capitalised words don't count: names are rightly copied, and the first word of a
    # sentence is capitalised. In a script without spaces, each character is a word.
    ours, given = (
        [piece for piece in split_text(text) if piece.isalpha() and piece == piece.lower()]
        for text in (hypothesis, source)
    )
    return share_of_words(ours, given) if len(ours) >= _MIN_WORDS else 0.0


def _judge(
    value: float | None, text: str, *, low: float | None = None, high: float | None = None
) -> _Finding | None:
    """Returns a value that exceeds its limit, either `low` or `high`."""
    if value is not None and low is not None and value < low:
        return value, low, text.format(value)
    if value is not None and high is not None and value > high:
        return value, high, text.format(value)
    return None


def _list(others: Sequence[str]) -> str:
    """Returns the template of a message that lists numbers or addresses."""
    listed = ", ".join(each[:80] for each in others[:_MAX_LISTED])
    text = f"on one side only: {listed}{' ...' if len(others) > _MAX_LISTED else ''}"
    return text.replace("{", "{{").replace("}", "}}")


def count_flagged_lines(
    flags: Sequence[Sequence[Flag]], names: Sequence[FlagName] = FLAG_NAMES
) -> dict[str, int]:
    """Returns the number of lines with each of `names`."""
    named = [{flag.name for flag in of_line} for of_line in flags]
    return {name: sum(name in of_line for of_line in named) for name in names}
