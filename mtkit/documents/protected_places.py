"""Where the protected texts of a unit stand in its translation."""

import bisect
import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

from mtkit.documents.document import Link, Node, Span, walk
from mtkit.documents.plain_text import PlainText

_MAX_PLACES = 100
"""Places in a translation that are considered for a protected text."""
_MANY = 64
"""Texts of one length from which on the translation is read once for all of them."""
_MAX_SHORT = 64
"""Characters of a text up to which that is done; a unit can hold few texts that are longer."""
_MAX_TRIES = 1_000
"""Places that a longer text is looked for at, parts of words among them."""

_Text = tuple[str, bool]
"""A text, and whether it may be a part of a word."""


def find_protected(
    nodes: Sequence[Node], plain: PlainText, target: str, links: Sequence[Link]
) -> dict[int, Span]:
    """Returns where protected texts stand in a translation, by the starts of their nodes.

    Of the places where a text is found, as whole words if it was, it gets the one with most links
    to it, and of those the nearest by its share of the text before.

    Args:
        nodes: The unit's.
        plain: Its text.
        target: The translation.
        links: Which words stand for each other.
    """
    source = plain.text
    wanted: list[tuple[int, Span, _Text]] = []
    for node in walk(nodes):
        if node.kind != "protected":
            continue
        start, end = plain.spans[node.start]
        is_part = source[max(0, start - 1) : start].isalnum() or source[end : end + 1].isalnum()
        wanted.append((node.start, (start, end), (source[start:end], is_part)))
    if not wanted:
        return {}
    where = _find_all({text for _, _, text in wanted}, target)
    linked = _LinkedWords(links)
    is_taken = bytearray(len(target))
    found: dict[int, Span] = {}
    for key, span, text in wanted:
        places = [place for place in where[text] if 1 not in is_taken[place[0] : place[1]]]
        if places:
            found[key] = _choose(places, linked.find(span), span[0] / len(source) * len(target))
            start, end = found[key]
            is_taken[start:end] = b"\1" * (end - start)
    return found


def _choose(places: Sequence[Span], words: "_Words", share: float) -> Span:
    return max(places, key=lambda place: (words.count(place), -abs(place[0] - share)))


class _Words:
    """Words, by their characters; how many of them overlap a place is counted quickly."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._starts = sorted(start for start, _ in spans)
        self._ends = sorted(end for _, end in spans)

    def count(self, place: Span) -> int:
        """Returns how many words overlap a place."""
        num_begun = bisect.bisect_left(self._starts, place[1])
        return num_begun - bisect.bisect_right(self._ends, place[0])


class _LinkedWords:
    """The words of a translation that those of a source are linked to."""

    def __init__(self, links: Sequence[Link]) -> None:
        self._links = sorted(links)
        self._starts = [source[0] for source, _ in self._links]
        # The end of the word that reaches furthest, up to each.
        self._reach = list(itertools.accumulate((source[1] for source, _ in self._links), max))

    def find(self, span: Span) -> _Words:
        """Returns the words that those which overlap a span are linked to."""
        start, end = span
        index = bisect.bisect_left(self._starts, end) - 1
        found = []
        while index >= 0 and self._reach[index] > start:
            source, target = self._links[index]
            if source[1] > start:
                found.append(target)
            index -= 1
        return _Words(found)


def _find_all(texts: set[_Text], target: str) -> dict[_Text, list[Span]]:
    """Returns where texts are in a translation: the first 100 places of each."""
    of_length: defaultdict[int, list[_Text]] = defaultdict(list)
    for text in texts:
        of_length[len(text[0])].append(text)
    found: dict[_Text, list[Span]] = {text: [] for text in texts}
    for length, group in of_length.items():
        if len(group) > _MANY and length <= _MAX_SHORT:
            _find_together(group, length, target, found)
            continue
        for text in group:
            starts = _find_starts(text[0], target)
            tried = itertools.islice(starts, None if length <= _MAX_SHORT else _MAX_TRIES)
            fitting = (start for start in tried if _fits(text, start, target))
            found[text] = [
                (start, start + length) for start in itertools.islice(fitting, _MAX_PLACES)
            ]
    return found


def _find_together(
    texts: Sequence[_Text], length: int, target: str, found: dict[_Text, list[Span]]
) -> None:
    """Notes where texts of one length are in a translation, which is read once."""
    wanted: defaultdict[str, list[_Text]] = defaultdict(list)
    for text in texts:
        wanted[text[0]].append(text)
    for start in range(len(target) - length + 1 if length else 0):
        for text in wanted.get(target[start : start + length], ()):
            if len(found[text]) < _MAX_PLACES and _fits(text, start, target):
                found[text].append((start, start + length))


def _find_starts(text: str, target: str) -> Iterator[int]:
    start = target.find(text) if text else -1
    while start >= 0:
        yield start
        start = target.find(text, start + 1)


def _fits(text: _Text, start: int, target: str) -> bool:
    """Returns whether a text at a place may be there: as whole words, or as a part of one."""
    characters, is_part = text
    end = start + len(characters)
    cuts_front = characters[0].isalnum() and target[max(0, start - 1) : start].isalnum()
    cuts_back = characters[-1].isalnum() and target[end : end + 1].isalnum()
    return is_part or not (cuts_front or cuts_back)
