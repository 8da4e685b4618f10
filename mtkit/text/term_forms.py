"""Whether a text has a term: as it is given, in another form, or not at all.

Two words count as forms of one if they are equal but for capitals and marks, or if they begin
alike: with three letters or more, and three at most behind these in either. They are half of the
longer word at least where the shorter has nothing else, and two thirds where both have endings. So
`Häusern` and `alten` are forms of `Haus` and `alter`; `ging` isn't found to be one of `gehen`, and
`Handel` is taken for one of `Hand`.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from mtkit.text.glossary import Word, fold, normalize, split_words
from mtkit.text.words import Span

Form = Literal["used", "inflected", "missed"]

MIN_STEM = 3
"""Letters that forms of a word have in common, at least."""
MAX_ENDING = 3
"""Letters behind these, at most."""


@dataclass(frozen=True)
class Use:
    """What a text has of a term.

    Attributes:
        form: `used` as it is given, `inflected`, or `missed`.
        span: Where it begins and ends; None where it is missed.
    """

    form: Form
    span: Span | None = None


def find_uses(text: str, targets: Sequence[tuple[str, bool]]) -> list[Use]:
    """Returns what a text has of each term; no word is counted for two.

    Args:
        text: A translation.
        targets: Terms, and whether capitals must be the same.
    """
    words = _Words(list(split_words(text)))
    found: list[Use] = [Use("missed")] * len(targets)
    # What is there as given first, so that no other form takes its words; long terms before short.
    order = sorted(range(len(targets)), key=lambda index: -len(targets[index][0]))
    forms: tuple[Literal["used", "inflected"], ...] = ("used", "inflected")
    for form in forms:
        for index in order:
            if found[index].form == "missed":
                target, is_case_sensitive = targets[index]
                span = words.take(target, form, is_case_sensitive=is_case_sensitive)
                found[index] = Use("missed" if span is None else form, span)
    return found


class _Words:
    """The words of a text, found by what they begin with; each is taken once."""

    def __init__(self, words: Sequence[Word]) -> None:
        self._words = words
        self._stripped = [strip_marks(word.text) for word in words]
        self._is_free = [True] * len(words)
        self._starts: defaultdict[str, list[int]] = defaultdict(list)
        for index, word in enumerate(self._stripped):
            self._starts[word[:MIN_STEM]].append(index)

    def take(
        self, target: str, form: Literal["used", "inflected"], *, is_case_sensitive: bool
    ) -> Span | None:
        """Returns where a term stands, if it does, and takes its words."""
        wanted = [word.text for word in split_words(target)]
        spell = strip_marks if form == "inflected" else normalize if is_case_sensitive else fold
        terms = list(map(spell, wanted))
        if not terms:
            return None
        starts = self._starts[strip_marks(wanted[0])[:MIN_STEM]]
        for start in starts:
            last = start + len(terms) - 1
            if last < len(self._words) and all(
                self._is_free[start + offset] and self._fits(start + offset, term, form, spell)
                for offset, term in enumerate(terms)
            ):
                self._is_free[start : last + 1] = [False] * len(terms)
                starts.remove(start)
                return self._words[start].span[0], self._words[last].span[1]
        return None

    def _fits(
        self,
        index: int,
        term: str,
        form: Literal["used", "inflected"],
        spell: Callable[[str], str],
    ) -> bool:
        if form == "inflected":
            return _are_word_forms(self._stripped[index], term)
        return spell(self._words[index].text) == term


def strip_marks(word: str) -> str:
    """Returns a word without capitals and marks."""
    folded = fold(word)
    if folded.isascii():
        return folded
    decomposed = unicodedata.normalize("NFD", folded)
    return "".join(each for each in decomposed if not unicodedata.combining(each))


def are_forms(first: str, second: str) -> bool:
    """Checks whether two terms, word by word, are forms of one."""
    terms = [[strip_marks(word.text) for word in split_words(each)] for each in (first, second)]
    return len(terms[0]) == len(terms[1]) and all(map(_are_word_forms, *terms))


def _are_word_forms(first: str, second: str) -> bool:
    if first == second:
        return True
    shorter, longer = sorted((first, second), key=len)
    stem = next(
        (index for index, each in enumerate(shorter) if each != longer[index]), len(shorter)
    )
    # An ending that is added leaves less doubt than one that is replaced.
    is_long = 2 * stem >= len(longer) if stem == len(shorter) else 3 * stem >= 2 * len(longer)
    return stem >= MIN_STEM and is_long and len(longer) - stem <= MAX_ENDING
