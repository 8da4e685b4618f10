"""Finds words, and short runs of words, that a pair's links show to be translations of each other.

A translation is given to a model in the most frequent form of its stem, which needs no lemmatizer:
`Katzen` is given as `Katze` after `cats`, if `cat` and `cats` have `Katze` more often than any
other form.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from random import Random

import regex

from mtkit.data.sources.pharaoh import read_link
from mtkit.files import read_json, write_atomically
from mtkit.text.term_forms import MAX_ENDING, MIN_STEM, are_forms, strip_marks
from mtkit.text.words import FindWords, Span

_MAX_LEXICON_BYTES = 1 << 28
_MAX_WORDS = 3
"""Per side of a term."""
_LETTERS = regex.compile(r"[\p{L}\p{M}]+")
_SIGNS = regex.compile(r"^[^\p{L}\p{N}]+|[^\p{L}\p{M}\p{N}]+$")
_JOINTS = frozenset("-‐‑'’_")
"""Characters that join letters to another word; a glossary stops at these too."""

CommonWords = tuple[Collection[str], Collection[str]]
"""Lower-case source and target words that are too frequent to be terms."""


@dataclass(frozen=True)
class LinkedPair:
    """A pair with the links between its words.

    Attributes:
        links: In Pharaoh format: `0-0 1-2`.
        find_words: Returns the spans of the words that the links count.
    """

    source: str
    target: str
    links: str
    find_words: FindWords


@dataclass(frozen=True)
class LinkedTerm:
    """The span of a term, that of its translation, and its number of source words."""

    source: Span
    target: Span
    num_words: int


def find_linked_terms(pair: LinkedPair, common: CommonWords) -> list[LinkedTerm]:
    """Returns the terms of a pair: neighbouring words that are linked to no others.

    Each side has up to three words, of letters only, none of them common, with nothing but spaces
    in between. Terms may overlap.
    """
    sides = [
        _Side(text, pair.find_words(text), words)
        for text, words in zip((pair.source, pair.target), common, strict=True)
    ]
    for source, target in map(read_link, pair.links.split()):
        sides[0].linked[source].add(target)
        sides[1].linked[target].add(source)
    return list(_find_terms(*sides))


class _Side:
    """A side's words, with the words of the other side that each is `linked` to."""

    def __init__(self, text: str, words: list[Span], common: Collection[str]) -> None:
        self._text, self._common = text, common
        self._spans = [_strip_signs(text, span) for span in words]
        self.linked: list[set[int]] = [set() for _ in words]

    def __len__(self) -> int:
        return len(self._spans)

    def is_content(self, word: int) -> bool:
        """Checks that a word is only letters, linked, not common and not part of another word."""
        start, end = self._spans[word]
        text = self._text
        return (
            bool(self.linked[word])
            and _LETTERS.fullmatch(text, start, end) is not None
            and text[start - 1 : start] not in _JOINTS
            and text[end : end + 1] not in _JOINTS
            and text[start:end].casefold() not in self._common
        )

    def join(self, first: int, last: int) -> Span | None:
        """Returns the span of a run of words; None if there is more than spaces between them."""
        for word in range(first, last):
            if self._text[self._spans[word][1] : self._spans[word + 1][0]].strip(" "):
                return None
        return self._spans[first][0], self._spans[last][1]


def _find_terms(source: _Side, target: _Side) -> Iterator[LinkedTerm]:
    for first in range(len(source)):
        found: set[int] = set()
        for last in range(first, min(first + _MAX_WORDS, len(source))):
            if not source.is_content(last):
                break
            found |= source.linked[last]
            start, end = min(found), max(found)
            run = range(start, end + 1)
            inside = set(range(first, last + 1))
            if len(run) > _MAX_WORDS or not all(
                target.is_content(word) and target.linked[word] <= inside for word in run
            ):
                continue
            spans = source.join(first, last), target.join(start, end)
            if spans[0] is not None and spans[1] is not None:
                yield LinkedTerm(spans[0], spans[1], last - first + 1)


def _strip_signs(text: str, span: Span) -> Span:
    """Returns a word's span without surrounding punctuation, if only spaces separate words."""
    start, end = span
    word = text[start:end]
    if _LETTERS.fullmatch(word):
        return span
    stripped = _SIGNS.sub("", word)
    start = text.index(stripped, start)
    return start, start + len(stripped)


class TermLexicon:
    """Terms and their translations.

    `translations` counts how often each lower-case term is linked to each translation.
    """

    def __init__(self, common: CommonWords, translations: Mapping[str, Mapping[str, int]]) -> None:
        self.common: CommonWords = frozenset(common[0]), frozenset(common[1])
        self._translations = translations
        self._stems: defaultdict[str, list[str]] = defaultdict(list)
        for term in translations:
            for stem in _list_stems(term):
                self._stems[stem].append(term)

    def save(self, path: Path) -> None:
        """Writes the lexicon, for other processes to `load`."""
        tables = {"common": list(map(sorted, self.common)), "translations": self._translations}
        write_atomically(path, json.dumps(tables, ensure_ascii=False, sort_keys=True) + "\n")

    @classmethod
    def load(cls, path: Path) -> "TermLexicon":
        """Returns a lexicon that `save` wrote."""
        tables = read_json(path, max_bytes=_MAX_LEXICON_BYTES)
        return cls(tuple(tables["common"]), tables["translations"])

    def find_base(self, source: str, target: str) -> str:
        """Returns the form in which a translation is given; `target` where no other is known."""
        counts: Counter[str] = Counter()
        for term in self._find_related(source.casefold()):
            for form, count in self._translations[term].items():
                if are_forms(form, target):
                    counts[form] += count
        return min(counts, key=lambda form: (-counts[form], len(form), form), default=target)

    def invent(self, base: str, form: str, random: Random) -> tuple[str, str]:
        """Returns a translation and its target form with an invented stem, rarely a real word.

        The stem is the start of one word and the end of another; endings and capitals stay. Forms
        that begin differently, and terms of several words, stay unchanged.
        """
        pairs = zip(base.lower(), form.lower(), strict=False)
        length = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        if length < MIN_STEM or " " in base + form or not self._words:
            return base, form
        first, last = random.choice(self._words), random.choice(self._words)
        stem = first[: (len(first) + 1) // 2] + last[len(last) // 2 :]
        capital = stem[0].upper() + stem[1:]

        def respell(word: str) -> str:
            return (capital if word[0].isupper() else stem) + word[length:]

        return respell(base), respell(form)

    @cached_property
    def _words(self) -> list[str]:
        """Lower-case target words to make stems of."""
        words = {
            form.casefold()
            for forms in self._translations.values()
            for form in forms
            if form.isalpha() and len(form) > MIN_STEM
        }
        return sorted(words)

    def _find_related(self, term: str) -> Iterable[str]:
        """Returns the known terms that are forms of this one, itself included."""
        near = dict.fromkeys(each for stem in _list_stems(term) for each in self._stems[stem])
        return [each for each in near if are_forms(each, term)]


def _list_stems(term: str) -> list[str]:
    """Returns possible stems; two forms of a term have at least one in common."""
    letters = strip_marks(term)
    shortest = max(MIN_STEM, len(letters) - MAX_ENDING)
    return [letters, *(letters[:length] for length in range(shortest, len(letters)))]
