"""Development and test sentences inside the training text."""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from mtkit.data.cleaning.characters import Text, every_character
from mtkit.data.cleaning.filters import Block, Flags
from mtkit.data.cleaning.repairs import repair
from mtkit.recipe.cleaning import Overlap

_BASE = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that its powers modulo 2^64 are all different for any line's length."""
_KEPT = "LMN"
"""General categories of letters, marks and numbers."""
_LAST_LETTER = "\U0003ffff"
"""Beyond planes 0 to 3 there are no letters."""


@dataclass(frozen=True)
class HeldOut:
    """The development and test sets, folded; it can be sent to another process.

    Attributes:
        sources: Pairs, by number, in which each folded source stands.
        targets: Pairs in which each folded target stands.
        source_hashes: Hash of each folded source, sorted.
        target_hashes: Hash of each folded target, sorted.
    """

    sources: dict[str, frozenset[int]]
    targets: dict[str, frozenset[int]]
    source_hashes: NDArray[np.uint64]
    target_hashes: NDArray[np.uint64]

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> "HeldOut":
        """Returns what the filter needs to know of held-out pairs.

        Args:
            pairs: Source and target lines as they are read.
        """
        sides: tuple[dict[str, set[int]], dict[str, set[int]]] = ({}, {})
        for number, pair in enumerate(pairs):
            for side, line in zip(sides, pair, strict=True):
                # A training line is repaired before it is compared.
                if folded := fold(repair(line)):
                    side.setdefault(folded, set()).add(number)
        sources, targets = (
            {folded: frozenset(numbers) for folded, numbers in side.items()} for side in sides
        )
        return cls(sources, targets, _hash_folded(sources), _hash_folded(targets))


def fold(line: str) -> str:
    """Returns a line's letters, marks and numbers, case folded.

    Those of planes 0 to 3: the only marks beyond choose between a letter's shapes.
    """
    return "".join(
        character
        for character in line
        if character <= _LAST_LETTER and unicodedata.category(character)[0] in _KEPT
    ).casefold()


def find_overlap(block: Block, settings: Overlap, held_out: HeldOut, chosen: Flags) -> Flags:
    """Returns which of the chosen pairs have a side that stands in the held-out sets."""
    found = np.zeros(len(block), np.bool_)
    if not len(block) or not (held_out.sources or held_out.targets):
        return found
    is_candidate = _is_in(_hash_lines(block.source), held_out.source_hashes)
    is_candidate |= _is_in(_hash_lines(block.target), held_out.target_hashes)
    for place, source, target in block.pairs(chosen & is_candidate):
        in_source, in_target = fold(source), fold(target)
        sources = held_out.sources.get(in_source, frozenset())
        targets = held_out.targets.get(in_target, frozenset())
        found[place] = (
            (bool(sources) and len(in_source) >= settings.min_letters)
            or (bool(targets) and len(in_target) >= settings.min_letters)
            or bool(sources & targets)
        )
    return found


def _is_in(hashes: NDArray[np.uint64], known: NDArray[np.uint64]) -> Flags:
    """Returns which hashes are among the known ones, which are sorted."""
    if not len(known):
        return np.zeros(len(hashes), np.bool_)
    places = np.searchsorted(known, hashes)
    is_known: Flags = known[np.minimum(places, len(known) - 1)] == hashes
    return is_known


def _hash_folded(lines: Iterable[str]) -> NDArray[np.uint64]:
    """Returns the sorted hashes of lines that are folded already."""
    hashes = [
        (codes * _powers(len(codes))).sum(dtype=np.uint64)
        for codes in (np.frombuffer(line.encode("utf-32-le"), np.uint32) for line in lines)
    ]
    return np.sort(np.array(hashes, np.uint64))


def _hash_lines(text: Text) -> NDArray[np.uint64]:
    """Returns what `_hash_folded` would make of each line if it were folded: a polynomial."""
    widths, values = _folding()
    codes = np.minimum(text.codes, len(widths) - 1)
    width = widths[codes]
    ends = np.cumsum(width, dtype=np.int64)
    begins = ends - width
    place = begins - np.repeat(begins[text.starts], text.lengths + 1)
    weighted = values[codes] * _powers(int(place.max()) + 1)[place]
    return np.add.reduceat(weighted, text.starts)


@cache
def _folding() -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
    """Returns how many characters each code point folds to, and their polynomial; 0 where none."""
    characters = every_character()
    values = np.arange(len(characters) + 1, dtype=np.uint64)
    widths = np.fromiter(
        (unicodedata.category(character)[0] in _KEPT for character in characters), np.uint8
    )
    # The last entry stands for all code points beyond.
    widths = np.append(widths, np.uint8(0))
    values[widths == 0] = 0
    for code in np.flatnonzero(widths).tolist():
        character = characters[code]
        if (folded := character.casefold()) != character:
            codes = np.frombuffer(folded.encode("utf-32-le"), np.uint32)
            widths[code] = len(codes)
            values[code] = (codes * _powers(len(codes))).sum(dtype=np.uint64)
    return widths, values


def _powers(count: int) -> NDArray[np.uint64]:
    """Returns the first powers of the base, modulo 2^64, from its zeroth on."""
    if count <= len(_FIRST_POWERS):
        return _FIRST_POWERS[:count]
    return np.cumprod(np.append(np.uint64(1), np.full(count - 1, _BASE)), dtype=np.uint64)


_FIRST_POWERS = np.cumprod(np.append(np.uint64(1), np.full(4095, _BASE)), dtype=np.uint64)
