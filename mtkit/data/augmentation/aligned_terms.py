"""Words of a pair, and short runs of them, that are translations of each other by its links."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import regex

from mtkit.data.sources.pharaoh import Link
from mtkit.text.words import Span

_MAX_WORDS = 3
"""Of either side of a term."""
_LETTERS = regex.compile(r"[\p{L}\p{M}]+")
_SIGNS = regex.compile(r"^[^\p{L}\p{N}]+|[^\p{L}\p{M}\p{N}]+$")
_JOINTS = frozenset("-‐‑'’_")
"""What joins letters to what isn't the same word: a glossary doesn't look behind these either."""

CommonWords = tuple[Collection[str], Collection[str]]
"""Words of source and target that are too frequent to be terms, without capitals."""


@dataclass(frozen=True)
class LinkedPair:
    """A pair with the links between its words.

    Attributes:
        source: The source.
        target: The target.
        links: As a line: `0-0 1-2`.
        find_words: What tells where the words stand that links count.
    """

    source: str
    target: str
    links: str
    find_words: Callable[[str], list[Span]]


@dataclass(frozen=True)
class LinkedTerm:
    """A term of a source, and its translation.

    Attributes:
        source: Where it stands.
        target: Where its translation stands in the target.
        num_words: Words of the source that it has.
    """

    source: Span
    target: Span
    num_words: int


def find_linked_terms(pair: LinkedPair, common: CommonWords) -> list[LinkedTerm]:
    """Returns the terms of a pair: words that stand together and are linked to no others.

    Each side has three words at most, all of letters alone, none of them common, and nothing but
    spaces between them. Terms may overlap.
    """
    sides = [
        _Side(text, pair.find_words(text), words)
        for text, words in zip((pair.source, pair.target), common, strict=True)
    ]
    for source, target in map(_parse_link, pair.links.split()):
        sides[0].linked[source].add(target)
        sides[1].linked[target].add(source)
    return list(_find_terms(*sides))


class _Side:
    """A side's words.

    Attributes:
        linked: The words of the other side that each is linked to.
    """

    def __init__(self, text: str, words: list[Span], common: Collection[str]) -> None:
        self._text, self._common = text, common
        self._spans = [_strip_signs(text, span) for span in words]
        self.linked: list[set[int]] = [set() for _ in words]

    def __len__(self) -> int:
        return len(self._spans)

    def is_content(self, word: int) -> bool:
        """Checks that a word has letters alone, is linked, and isn't common or a part of one."""
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
        """Returns where a run of words stands; None where there is more between them."""
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


def _parse_link(link: str) -> Link:
    source, _, target = link.partition("-")
    return int(source), int(target)


def _strip_signs(text: str, span: Span) -> Span:
    """Returns a word without signs around it, where only spaces separate words."""
    start, end = span
    word = text[start:end]
    if _LETTERS.fullmatch(word):
        return span
    stripped = _SIGNS.sub("", word)
    start = text.index(stripped, start)
    return start, start + len(stripped)
