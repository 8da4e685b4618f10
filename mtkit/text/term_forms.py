"""Whether a text has a term: as it is given, in another form, or not at all.

Two words count as forms of one if they are equal but for capitals and marks, or if they begin
alike: with three letters or more, and three at most behind these in either. They are half of the
longer word at least where the shorter has nothing else, and two thirds where both have endings. So
`Häusern` and `alten` are forms of `Haus` and `alter`; `ging` isn't found to be one of `gehen`, and
`Handel` is taken for one of `Hand`.

A model may have learned to read how words of a source are to be translated.
Behind a term stands its translation: `a<term0> cat<term1> Katze<term2> sleeps` (arXiv 1906.01105,
the form that appends). Each symbol is one piece of the vocabulary.
"""

import unicodedata
from collections import defaultdict, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from mtkit.text.glossary import fold, normalize, split_words
from mtkit.text.phrases import PhraseFinder
from mtkit.text.vocabulary import Vocabulary
from mtkit.text.words import Span

TERM_SYMBOLS = ("<term0>", "<term1>", "<term2>")
"""Before a term, between it and its translation, and behind that."""
Form = Literal["used", "inflected", "missed"]
MIN_STEM = 3
"""Letters that forms of a word have in common, at least."""
MAX_ENDING = 3
"""Letters behind these, at most."""
_COMPARISONS_PER_WORD, _MAX_COMPARED = 64, 1_000
"""Bounds on the places at which a text's inflected terms are looked for."""


def knows_terms(source_vocabulary: Vocabulary) -> bool:
    """Checks whether a model has the symbols, and so was trained on annotated sources."""
    return all(symbol in source_vocabulary.ids for symbol in TERM_SYMBOLS)


def has_symbols(text: str) -> bool:
    """Checks whether a text holds one of the symbols itself."""
    return any(symbol in text for symbol in TERM_SYMBOLS)


def annotate(text: str, terms: Sequence[tuple[Span, str]], masked: Collection[Span] = ()) -> str:
    """Returns a text with translations behind its terms.

    Args:
        text: The text.
        terms: Where terms stand in it, and their translations; none overlaps another.
        masked: Those of the terms that are left out, so that their translations stand alone.
    """
    first, middle, last = TERM_SYMBOLS
    parts, end = [], 0
    for (start, stop), target in sorted(terms):
        # A symbol stands before the space: behind it the space would be a piece of its own.
        before = text[end:start]
        stripped = before.rstrip(" ")
        parts += [stripped, first]
        if (start, stop) not in masked:
            parts += [before[len(stripped) :], text[start:stop]]
        parts += [middle, " ", target, last]
        end = stop
    return "".join([*parts, text[end:]])


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
    words = _Words(text, targets)
    found: list[Use] = [Use("missed")] * len(targets)
    # What is there as given first, so that no other form takes its words; long terms before short.
    order = sorted(range(len(targets)), key=lambda index: -len(targets[index][0]))
    forms: tuple[Literal["used", "inflected"], ...] = ("used", "inflected")
    for form in forms:
        for index in order:
            if found[index].form == "missed":
                span = words.take(index, form)
                found[index] = Use("missed" if span is None else form, span)
    return found


def find_each_use(text: str, targets: Sequence[tuple[str, bool]]) -> list[Use]:
    """Returns what a text has of each term, as if there were no other.

    Args:
        text: A translation.
        targets: Terms, and whether capitals must be the same.
    """
    words = _Words(text, targets)
    found: list[Use] = []
    for index in range(len(targets)):
        span = words.take(index, "used", keeps=True)
        if span is not None:
            found.append(Use("used", span))
            continue
        span = words.take(index, "inflected", keeps=True)
        found.append(Use("missed" if span is None else "inflected", span))
    return found


class _Words:
    """The words of a text, in which terms are found; each is taken once.

    Args:
        text: The text.
        targets: The terms, and whether capitals must be the same.
    """

    def __init__(self, text: str, targets: Sequence[tuple[str, bool]]) -> None:
        self._words = list(split_words(text))
        self._terms = [[word.text for word in split_words(target)] for target, _ in targets]
        self._is_free = [True] * len(self._words)
        self._comparisons = _COMPARISONS_PER_WORD * min(len(self._words), _MAX_COMPARED)
        self._exact = self._find_exact(targets)

    def _find_exact(self, targets: Sequence[tuple[str, bool]]) -> list[deque[int]]:
        """Returns where each term is as it is given."""
        places: list[deque[int]] = [deque() for _ in targets]
        for is_case_sensitive, spell in ((False, fold), (True, normalize)):
            spelled: dict[tuple[str, ...], deque[int]] = {}
            for index, (_, is_sensitive) in enumerate(targets):
                if is_sensitive == is_case_sensitive:
                    key = tuple(map(spell, self._terms[index]))
                    places[index] = spelled.setdefault(key, places[index])
            if spelled:
                found = list(spelled.values())
                words = [spell(word.text) for word in self._words]
                for first, index in PhraseFinder(list(spelled)).find(words):
                    found[index].append(first)
        return places

    @cached_property
    def _stripped(self) -> list[str]:
        return [strip_marks(word.text) for word in self._words]

    @cached_property
    def _starts(self) -> defaultdict[str, list[int]]:
        """Words by what they begin with."""
        starts: defaultdict[str, list[int]] = defaultdict(list)
        for index, word in enumerate(self._stripped):
            starts[word[:MIN_STEM]].append(index)
        return starts

    def take(
        self, index: int, form: Literal["used", "inflected"], *, keeps: bool = False
    ) -> Span | None:
        """Returns where a term is, if it is there, and takes its words.

        Args:
            index: Of the term.
            form: As it is given, or inflected.
            keeps: Whether its words stay free.
        """
        length = len(self._terms[index])
        if not length:
            return None
        first = self._find_used(index) if form == "used" else self._find_inflected(index)
        if first is None:
            return None
        if not keeps:
            self._is_free[first : first + length] = [False] * length
        return self._words[first].span[0], self._words[first + length - 1].span[1]

    def _find_used(self, index: int) -> int | None:
        places, length = self._exact[index], len(self._terms[index])
        while places:
            if all(self._is_free[places[0] : places[0] + length]):
                return places[0]
            # A word that was taken is never free again.
            places.popleft()
        return None

    def _find_inflected(self, index: int) -> int | None:
        terms = list(map(strip_marks, self._terms[index]))
        for start in self._starts[terms[0][:MIN_STEM]]:
            self._comparisons -= 1
            if self._comparisons < 0:
                return None
            end = start + len(terms)
            if (
                end <= len(self._words)
                and all(self._is_free[start:end])
                and all(map(_are_word_forms, self._stripped[start:end], terms))
            ):
                return start
        return None


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
