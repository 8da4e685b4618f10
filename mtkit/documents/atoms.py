"""A text's atoms (words and signs), and links between those of a source and of a translation."""

import bisect
import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Literal

import regex

from mtkit.documents.document import Link, Span

SPACE = " \t\r\n\f"
"""Characters that a line may be broken at; excludes the no-break space."""
# Scripts without spaces between words: each character is an atom.
_WHOLE = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_ATOM = regex.compile(rf"[^\W{_WHOLE}]++|[^\w\s]|[{_WHOLE}]\p{{M}}*+")

UNSPACED = regex.compile(f"[{_WHOLE}]")
"""A character of a script without spaces between words."""
_JOINING = frozenset("-\u2010\u2011\u2013/_@")
"""Signs within words, which have no meaning alone."""
_MAX_GROUP_LINKS = 4_096
"""Maximum links between the atoms of two words; a word with more is a line of signs."""

AtomLinks = list[tuple[int, int]]
"""Pairs of a source atom's and a target atom's index."""

PunctuationKind = Literal["", "end", "pause", "quote", "open", "close", "other"]
"""The kind of sign of an atom; empty for a word."""
_SIGNS: dict[str, PunctuationKind] = {
    **dict.fromkeys(".!?…。！？｡؟।", "end"),
    **dict.fromkeys(",;:，；：、،؛", "pause"),
    **dict.fromkeys("\"'«»‹›“”„‟‘’‚‛「」『』《》", "quote"),
    **dict.fromkeys("([{（［｛【", "open"),
    **dict.fromkeys(")]}）］｝】", "close"),
}


def find_atoms(text: str) -> list[Span]:
    """Returns the spans of a text's words and signs; only space lies between them."""
    return [found.span() for found in _ATOM.finditer(text)]


def find_punctuation_kinds(text: str, atoms: Sequence[Span]) -> list[PunctuationKind]:
    """Returns the kind of sign of each atom."""
    return [
        "" if text[start].isalnum() else _SIGNS.get(text[start:end], "other")
        for start, end in atoms
    ]


def is_symbol(text: str) -> bool:
    """Checks that a text is neither words nor punctuation, such as `¶`."""
    signs = text.split()
    return bool(signs) and not any(
        character.isalnum() or character in _SIGNS for sign in signs for character in sign
    )


class AtomIndex:
    """Finds the atoms of a text by position."""

    def __init__(self, atoms: Sequence[Span]) -> None:
        self.atoms = atoms
        self._starts = [start for start, _ in atoms]
        self._ends = [end for _, end in atoms]
        self._of_atom = {span: range(index, index + 1) for index, span in enumerate(atoms)}

    def find_ending_after(self, position: int) -> int:
        """Returns the index of the first atom that ends after a position."""
        return bisect.bisect_right(self._ends, position)

    def find_beginning_at(self, position: int) -> int:
        """Returns the index of the first atom that begins at a position or after it."""
        return bisect.bisect_left(self._starts, position)

    def find_overlapping(self, span: Span) -> range:
        """Returns the indices of the atoms that share a character with a span."""
        found = self._of_atom.get(span)
        if found is not None:
            return found
        first = self.find_ending_after(span[0])
        return range(first, max(first, self.find_beginning_at(span[1])))


def link_atoms(
    source: str,
    target: str,
    indices: tuple[AtomIndex, AtomIndex],
    links: Sequence[Link] | None,
) -> AtomLinks:
    """Returns links between atoms from those between words; without any, by position.

    A linked word may hold several atoms, such as a word with a comma: equal atoms are linked to
    each other, all others among themselves.
    """
    words = [source[start:end].casefold() for start, end in indices[0].atoms]
    target_words = [target[start:end].casefold() for start, end in indices[1].atoms]
    if not links:
        return _link_by_position(words, target_words)
    found: set[tuple[int, int]] = set()
    for source_word, target_word in links:
        of_source = indices[0].find_overlapping(source_word)
        of_target = indices[1].find_overlapping(target_word)
        if len(of_source) == 1 and len(of_target) == 1:
            found.add((of_source[0], of_target[0]))
        else:
            found |= _link_group(of_source, of_target, words, target_words)
    found |= _link_the_same(found, words, target_words)
    return sorted(found)


def link_words(source: str, target: str) -> list[Link]:
    """Returns links between words by position only, for a translator without alignments."""
    indices = AtomIndex(find_atoms(source)), AtomIndex(find_atoms(target))
    return [
        (indices[0].atoms[first], indices[1].atoms[second])
        for first, second in link_atoms(source, target, indices, None)
    ]


def _link_group(
    source: range, target: range, words: Sequence[str], others: Sequence[str]
) -> set[tuple[int, int]]:
    """Returns links between the atoms of two linked words."""
    left: list[int] = []
    right = dict.fromkeys(target)
    places: dict[str, list[int]] = {}
    for other in reversed(target):
        places.setdefault(others[other], []).append(other)
    found = set()
    for index in source:
        same = places.get(words[index])
        if same:
            found.add((index, same[-1]))
            del right[same.pop()]
        else:
            left.append(index)
    if left and right:
        for is_word in (True, False):
            ours = [index for index in left if words[index].isalnum() == is_word]
            theirs = [index for index in right if others[index].isalnum() == is_word]
            found |= _link_all(ours, theirs)
    return found or _link_all(left, list(right))


def _link_all(ours: Sequence[int], theirs: Sequence[int]) -> set[tuple[int, int]]:
    """Returns all links between atoms; for very many, only at the same relative position."""
    if len(ours) == len(theirs) == 1:
        return {(ours[0], theirs[0])}
    if len(ours) * len(theirs) <= _MAX_GROUP_LINKS:
        return {(index, other) for index in ours for other in theirs}
    count = max(len(ours), len(theirs))
    return {
        (ours[index * len(ours) // count], theirs[index * len(theirs) // count])
        for index in range(count)
    }


def _link_the_same(
    found: set[tuple[int, int]], words: Sequence[str], others: Sequence[str]
) -> set[tuple[int, int]]:
    """Returns links between equal atoms without links, if they are unique on each side."""
    where: list[defaultdict[str, list[int]]] = [defaultdict(list), defaultdict(list)]
    for side, (texts, places) in enumerate(zip((words, others), where, strict=True)):
        linked = {link[side] for link in found}
        if len(linked) == len(texts):
            return set()
        for index, text in enumerate(texts):
            if index not in linked and text not in _JOINING:
                places[text].append(index)
    return {
        (indices[0], where[1][text][0])
        for text, indices in where[0].items()
        if len(indices) == 1 and len(where[1].get(text, ())) == 1
    }


def _link_by_position(words: Sequence[str], others: Sequence[str]) -> AtomLinks:
    """Returns a link for each target atom: to the same word, or by interpolation."""
    if not words or not others:
        return []
    anchors = [(-1, -1), *_find_anchors(words, others), (len(words), len(others))]
    found = list(anchors[1:-1])
    for (source, target), (next_source, next_target) in itertools.pairwise(anchors):
        num_source, num_target = next_source - source - 1, next_target - target - 1
        if num_source:
            found += [
                (source + 1 + (2 * index + 1) * num_source // (2 * num_target), target + 1 + index)
                for index in range(num_target)
            ]
    return sorted(found)


def _find_anchors(words: Sequence[str], others: Sequence[str]) -> AtomLinks:
    """Returns atoms that are unique on each side, as the longest series in the same order."""
    counts, target_counts = Counter(words), Counter(others)
    where = {word: index for index, word in enumerate(others)}
    pairs = [
        (index, where[word])
        for index, word in enumerate(words)
        if counts[word] == 1 and target_counts[word] == 1
    ]
    # Patience sorting: the last pair of the best series of each length, and the pair before it.
    ends: list[int] = []
    tails: list[int] = []
    before: list[int] = []
    for number, (_, target) in enumerate(pairs):
        length = bisect.bisect_left(ends, target)
        before.append(tails[length - 1] if length else -1)
        ends[length : length + 1] = [target]
        tails[length : length + 1] = [number]
    series = []
    number = tails[-1] if tails else -1
    while number >= 0:
        series.append(pairs[number])
        number = before[number]
    return series[::-1]
