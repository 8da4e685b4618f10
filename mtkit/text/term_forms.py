"""Whether a text has a term: as it is given, in another form, or not at all.

Two words count as forms of one if they are equal but for capitals and marks, or if they begin
alike: with three letters or more, and three at most behind these in either. They are half of the
longer word at least where the shorter has nothing else, and two thirds where both have endings. So
`Häusern` and `alten` are forms of `Haus` and `alter`; `ging` isn't found to be one of `gehen`, and
`Handel` is taken for one of `Hand`.
"""

import operator
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from mtkit.text.glossary import Word, fold, normalize, split_words
from mtkit.text.words import Span

Form = Literal["used", "inflected", "missed"]

_MIN_STEM = 3
_MAX_ENDING = 3


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
    words = list(split_words(text))
    is_free = [True] * len(words)
    found: list[Use] = [Use("missed")] * len(targets)
    # What is there as given first, so that no other form takes its words; long terms before short.
    order = sorted(range(len(targets)), key=lambda index: -len(targets[index][0]))
    for form in ("used", "inflected"):
        for index in order:
            if found[index].form != "missed":
                continue
            target, is_case_sensitive = targets[index]
            wanted = [word.text for word in split_words(target)]
            start = _find(words, is_free, wanted, form, is_case_sensitive=is_case_sensitive)
            if start is None:
                continue
            last = start + len(wanted) - 1
            is_free[start : last + 1] = [False] * len(wanted)
            found[index] = Use(form, (words[start].span[0], words[last].span[1]))
    return found


def _find(
    words: Sequence[Word],
    is_free: Sequence[bool],
    wanted: Sequence[str],
    form: Literal["used", "inflected"],
    *,
    is_case_sensitive: bool,
) -> int | None:
    """Returns the first word of a term that stands in a text, if it does."""
    if form == "used":
        spell = normalize if is_case_sensitive else fold
        texts, terms = [spell(word.text) for word in words], list(map(spell, wanted))
        fits: Callable[[str, str], bool] = operator.eq
    else:
        texts, terms = [_strip(word.text) for word in words], list(map(_strip, wanted))
        fits = _are_forms
    for start in range(len(words) - len(wanted) + 1):
        stretch = range(start, start + len(wanted))
        if all(
            is_free[index] and fits(texts[index], term)
            for index, term in zip(stretch, terms, strict=True)
        ):
            return start
    return None


def _strip(word: str) -> str:
    """Returns a word without capitals and marks."""
    decomposed = unicodedata.normalize("NFD", fold(word))
    return "".join(each for each in decomposed if not unicodedata.combining(each))


def _are_forms(first: str, second: str) -> bool:
    if first == second:
        return True
    shorter, longer = sorted((first, second), key=len)
    stem = next(
        (index for index, each in enumerate(shorter) if each != longer[index]), len(shorter)
    )
    # An ending that is added leaves less doubt than one that is replaced.
    is_long = 2 * stem >= len(longer) if stem == len(shorter) else 3 * stem >= 2 * len(longer)
    return stem >= _MIN_STEM and is_long and len(longer) - stem <= _MAX_ENDING
