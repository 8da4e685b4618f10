"""All checks of a line's translation, and how many lines have which flag."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mtkit.checks.flag import Flag
from mtkit.evaluation.flags.copied import measure_copied
from mtkit.evaluation.flags.language import LanguageCheck, open_identifier
from mtkit.evaluation.flags.lengths import measure_ratio
from mtkit.evaluation.flags.mentions import list_other_addresses, list_other_numbers
from mtkit.evaluation.repetition import count_repeats
from mtkit.recipe.flags import FLAG_NAMES, FlagName, Flags

_MAX_CHARACTERS = 20_000
"""Of a line that is looked at: time grows with it, and a line isn't a book."""
_MAX_TOLD = 5
"""Numbers or addresses that a text names."""
_find_language = lru_cache(maxsize=64)(LanguageCheck)


@dataclass(frozen=True)
class Found:
    """A line and its translation, with what a model knows of them.

    Attributes:
        source: The line.
        hypothesis: The translation.
        source_language: Code of the source's language; empty where it isn't known.
        target_language: Code of the translation's.
        mean_log_probability: Of a token of the translation; None where no model tells.
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
    """Finds flags by one set of thresholds.

    Args:
        settings: Thresholds, and which flags are looked for.

    Raises:
        MtkitError: What identifies languages isn't installed.
    """

    def __init__(self, settings: Flags) -> None:
        self._settings = settings
        checks: dict[FlagName, Callable[[Found], Iterator[Flag]]] = {
            "copied": self._find_copied,
            "wrong language": self._find_language,
            "looping": self._find_looping,
            "too short": self._find_too_short,
            "too long": self._find_too_long,
            "numbers differ": self._find_numbers,
            "addresses differ": self._find_addresses,
            "unlikely": self._find_unlikely,
            "poorly covered": self._find_uncovered,
        }
        self._checks = [check for name, check in checks.items() if name in settings.names]
        if "wrong language" in settings.names:
            open_identifier()

    def find(self, found: Found) -> tuple[Flag, ...]:
        """Returns the flags of a translation, in the order of `FLAG_NAMES`; a blank line has none.

        Args:
            found: The line and its translation.
        """
        if not found.source.strip():
            return ()
        if max(len(found.source), len(found.hypothesis)) > _MAX_CHARACTERS:
            # A length is all that is cheap to tell.
            checks = [check for check in self._checks if check in self._of_any_length]
        else:
            checks = self._checks
        return tuple(flag for check in checks for flag in check(found))

    @property
    def _of_any_length(self) -> tuple[Callable[[Found], Iterator[Flag]], ...]:
        return (
            self._find_too_short,
            self._find_too_long,
            self._find_unlikely,
            self._find_uncovered,
        )

    def _find_copied(self, found: Found) -> Iterator[Flag]:
        share, limit = measure_copied(found.source, found.hypothesis), self._settings.max_copied
        if share > limit:
            yield Flag("copied", share, limit, f"{share:.0%} of its words stand in the source")

    def _find_language(self, found: Found) -> Iterator[Flag]:
        if not found.target_language:
            return
        check = _find_language(found.source_language, found.target_language)
        limit = self._settings.min_confidence
        other, probability = check.find_other(found.hypothesis, self._settings.min_letters)
        if other and probability >= limit:
            text = f"it looks like {other} ({probability:.0%}) rather than {check.label}"
            yield Flag("wrong language", probability, limit, text)

    def _find_looping(self, found: Found) -> Iterator[Flag]:
        limit = self._settings.max_repeats
        repeats = count_repeats(found.hypothesis, limit)
        if repeats > 1 and repeats > count_repeats(found.source, limit):
            yield Flag("looping", repeats, limit, f"the same text {repeats} times in a row")

    def _find_too_short(self, found: Found) -> Iterator[Flag]:
        ratio, limit = self._measure_ratio(found), 1.0 / self._settings.max_ratio
        if ratio < limit:
            text = f"{ratio:.0%} of the length that its source lets expect"
            yield Flag("too short", ratio, limit, text)

    def _find_too_long(self, found: Found) -> Iterator[Flag]:
        ratio, limit = self._measure_ratio(found), self._settings.max_ratio
        if ratio > limit:
            text = f"{ratio:.1f} times the length that its source lets expect"
            yield Flag("too long", ratio, limit, text)

    def _measure_ratio(self, found: Found) -> float:
        settings = self._settings
        return measure_ratio(
            found.source, found.hypothesis, settings.length_ratio or 1.0, settings.smoothing
        )

    def _find_numbers(self, found: Found) -> Iterator[Flag]:
        others, limit = (
            list_other_numbers(found.source, found.hypothesis),
            self._settings.max_other_numbers,
        )
        if len(others) > limit:
            text = f"on one side only: {_list_some(others)}"
            yield Flag("numbers differ", len(others), limit, text)

    def _find_addresses(self, found: Found) -> Iterator[Flag]:
        others, limit = (
            list_other_addresses(found.source, found.hypothesis),
            self._settings.max_other_addresses,
        )
        if len(others) > limit:
            text = f"on one side only: {_list_some(others)}"
            yield Flag("addresses differ", len(others), limit, text)

    def _find_unlikely(self, found: Found) -> Iterator[Flag]:
        mean, limit = found.mean_log_probability, self._settings.min_log_probability
        if mean is not None and mean < limit:
            text = f"a mean log-probability of {mean:.2f} per token: the model is unsure"
            yield Flag("unlikely", mean, limit, text)

    def _find_uncovered(self, found: Found) -> Iterator[Flag]:
        coverage, limit = found.coverage, self._settings.min_coverage
        if coverage is not None and coverage < limit:
            text = f"{coverage:.0%} of the source's words are linked to one of its words"
            yield Flag("poorly covered", coverage, limit, text)


def count_flags(
    flags: Sequence[Sequence[Flag]], names: Sequence[FlagName] = FLAG_NAMES
) -> dict[str, int]:
    """Returns the number of lines that have each flag, by its name.

    Args:
        flags: Of each line.
        names: Flags that were looked for.
    """
    named = [{flag.name for flag in of_line} for of_line in flags]
    return {name: sum(name in of_line for of_line in named) for name in names}


def _list_some(found: Sequence[str]) -> str:
    told = ", ".join(each[:80] for each in found[:_MAX_TOLD])
    return told + (" ..." if len(found) > _MAX_TOLD else "")
