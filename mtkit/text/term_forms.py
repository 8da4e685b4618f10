"""Checks whether a text has a term: as given, inflected, or not at all.

Two words count as forms of one if they are equal without case and diacritics, or if they share a
prefix of at least three letters, and each has at most three more. The prefix must be at least
half of the longer word if the shorter has nothing else, and two thirds if both have endings. So
`Häusern` and `alten` are forms of `Haus` and `alter`; `ging` isn't recognised as a form of `gehen`,
and `Handel` is mistaken for one of `Hand`.

A model may be trained to read translations of source terms, which are appended to them: `a<term0>
cat<term1> Katze<term2> sleeps` (arXiv 1906.01105, the form that appends). Each symbol is one piece
of the vocabulary.
"""

import unicodedata
from collections import defaultdict, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from mtkit.text.glossary import fold, normalize, split_term_words
from mtkit.text.phrases import PhraseFinder
from mtkit.text.vocabulary import Vocabulary
from mtkit.text.words import Span

TERM_SYMBOLS = ("<term0>", "<term1>", "<term2>")
"""Before a term, between it and its translation, and after that."""
Form = Literal["used", "inflected", "missed"]
MIN_STEM = 3
"""Minimum number of common letters."""
MAX_ENDING = 3
"""Maximum number of letters after these."""
_COMPARISONS_PER_WORD, _MAX_COMPARED = 64, 1_000
"""Limits on the positions that are compared for a text's inflected terms."""


def knows_terms(source_vocabulary: Vocabulary) -> bool:
    """Checks whether a model has the symbols, and so was trained on annotated sources."""
    return all(symbol in source_vocabulary.ids for symbol in TERM_SYMBOLS)


def has_symbols(text: str) -> bool:
    """Checks whether a text contains one of the symbols itself."""
    return any(symbol in text for symbol in TERM_SYMBOLS)


def annotate(text: str, terms: Sequence[tuple[Span, str]], masked: Collection[Span] = ()) -> str:
    """Returns a text with translations after its terms, or instead of those in `masked`."""
    first, middle, last = TERM_SYMBOLS
    parts, end = [], 0
    for (start, stop), target in sorted(terms):
        # A symbol precedes the space: after it the space would be a separate piece.
        before = text[end:start]
        stripped = before.rstrip(" ")
        parts += [stripped, first]
        if (start, stop) not in masked:
            parts += [before[len(stripped) :], text[start:stop]]
        parts += [middle, " ", target, last]
        end = stop
    return "".join([*parts, text[end:]])


@dataclass(frozen=True)
class FoundUse:
    """How a text uses a term; the span is None if it is missed."""

    form: Form
    span: Span | None = None

    def overlaps(self, other: "FoundUse") -> bool:
        """Checks whether two uses have text in common."""
        if self.span is None or other.span is None:
            return False
        return self.span[0] < other.span[1] and other.span[0] < self.span[1]


def find_uses(
    text: str, targets: Sequence[tuple[str, bool]], *, shares: bool = False
) -> list[FoundUse]:
    """Returns how a text uses each term; a word counts for one term, or for all if it `shares`.

    `targets` are terms, and whether they are case-sensitive.
    """
    words = _Words(text, targets)
    found: list[FoundUse] = [FoundUse("missed")] * len(targets)
    # Exact matches first, so that no other form takes their words; long terms before short.
    order = sorted(range(len(targets)), key=lambda index: -len(targets[index][0]))
    forms: tuple[Literal["used", "inflected"], ...] = ("used", "inflected")
    for form in forms:
        for index in order:
            if found[index].form == "missed":
                span = words.take(index, form, keeps=shares)
                found[index] = FoundUse("missed" if span is None else form, span)
    return found


class _Words:
    """The words of a text, in which terms are found; each is taken once."""

    def __init__(self, text: str, targets: Sequence[tuple[str, bool]]) -> None:
        self._words = list(split_term_words(text))
        self._terms = [[word.text for word in split_term_words(target)] for target, _ in targets]
        self._is_free = [True] * len(self._words)
        self._comparisons = _COMPARISONS_PER_WORD * min(len(self._words), _MAX_COMPARED)
        self._exact = self._find_exact(targets)

    def _find_exact(self, targets: Sequence[tuple[str, bool]]) -> list[deque[int]]:
        """Returns the positions of each term's exact matches."""
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
        """Words by their first letters."""
        starts: defaultdict[str, list[int]] = defaultdict(list)
        for index, word in enumerate(self._stripped):
            starts[word[:MIN_STEM]].append(index)
        return starts

    def take(
        self, index: int, form: Literal["used", "inflected"], *, keeps: bool = False
    ) -> Span | None:
        """Returns the span of a term, if found, and takes its words unless `keeps`."""
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
            # A taken word is never free again.
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
    """Returns a word without case and diacritics."""
    folded = fold(word)
    if folded.isascii():
        return folded
    decomposed = unicodedata.normalize("NFD", folded)
    return "".join(each for each in decomposed if not unicodedata.combining(each))


def are_forms(first: str, second: str) -> bool:
    """Checks whether two terms, word by word, are forms of one."""
    terms = [
        [strip_marks(word.text) for word in split_term_words(each)] for each in (first, second)
    ]
    return len(terms[0]) == len(terms[1]) and all(map(_are_word_forms, *terms))


def _are_word_forms(first: str, second: str) -> bool:
    if first == second:
        return True
    shorter, longer = sorted((first, second), key=len)
    stem = next(
        (index for index, each in enumerate(shorter) if each != longer[index]), len(shorter)
    )
    # An added ending is more reliable than a replaced one.
    is_long = 2 * stem >= len(longer) if stem == len(shorter) else 3 * stem >= 2 * len(longer)
    return stem >= MIN_STEM and is_long and len(longer) - stem <= MAX_ENDING
