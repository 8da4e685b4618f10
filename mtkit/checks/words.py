"""Splits text into words, or into characters in scripts without spaces."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import regex
from numpy.typing import NDArray

from mtkit.checks.characters import CharacterKind, Text
from mtkit.text.protected import find_addresses
from mtkit.text.words import UNSPACED_SCRIPTS

_UNSPACED = "".join(rf"\p{{Script={name}}}" for name in UNSPACED_SCRIPTS)
# White space, a number with its separators, a word, any other character.
_PIECE = regex.compile(r"\s+|\d+(?:[.,'’٬٫]\d+)*|[\p{L}\p{M}\p{N}]+|\S")
_PIECE_OR_CHARACTER = regex.compile(
    rf"\s+|\d+(?:[.,'’٬٫]\d+)*|[{_UNSPACED}]\p{{M}}*"
    rf"|[[\p{{L}}\p{{M}}\p{{N}}]--[{_UNSPACED}]]+|\S",
    regex.VERSION1,
)
_IS_UNSPACED = regex.compile(rf"[{_UNSPACED}]")
_FIRST_UNSPACED = "\u0e01"
"""Thai's first letter: all scripts without spaces are above it, and the simple pattern is fast."""
_WEIGHTS = np.random.Generator(np.random.PCG64(0)).integers(
    2**64, size=256, dtype=np.uint64
) | np.uint64(1)
"""By position in a word: the sum of code point times weight, modulo 2^64, identifies words."""
_CLAUSE = 5
"""Minimum words of a whole clause."""
_LONGEST_CLAUSE = 20


def list_lacking_addresses(text: str, *others: str) -> list[str]:
    """Returns the lower-cased addresses of a text that are in none of the others."""
    addresses = find_addresses(text.casefold())
    folded = [other.casefold() for other in others] if addresses else []
    return [address for address in addresses if not any(address in other for other in folded)]


def is_same_text(one: str, other: str) -> bool:
    """Checks that two lines without space around them differ only in case and spaces."""
    # Most pairs differ in the first letter, which takes a tenth of the time of folding all.
    if one[:1].casefold()[:1] != other[:1].casefold()[:1]:
        return False
    return one.casefold().split() == other.casefold().split()


def share_of_words(words: Sequence[str], others: Sequence[str]) -> float:
    """Returns the share of words that are in `others`, each of which counts once; 0 of none."""
    return (Counter(words) & Counter(others)).total() / len(words) if words else 0.0


def split_text(text: str) -> list[str]:
    """Returns a text split into words, numbers, punctuation and white space, without loss."""
    is_spaced = text.isascii() or max(text) < _FIRST_UNSPACED
    pieces: list[str] = (_PIECE if is_spaced else _PIECE_OR_CHARACTER).findall(text)
    return pieces


def split_folded_words(text: str) -> list[str]:
    """Returns the case-folded words and numbers of a text, without punctuation."""
    return [piece for piece in split_text(text.casefold()) if piece[0].isalnum()]


def is_unspaced(texts: Sequence[str]) -> bool:
    """Checks that most words of these texts are characters of scripts without spaces."""
    num_words = num_characters = 0
    for text in texts:
        words = split_folded_words(text)
        num_words += len(words)
        num_characters += sum(_IS_UNSPACED.match(word) is not None for word in words)
    return 2 * num_characters > num_words


def find_repeats(
    values: NDArray[Any], size: int, groups: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the starts and counts of runs of equal parts of `size` values, each in one group."""
    # Repeats of a part: each value equals the one `size` values before.
    is_same = values[size:] == values[:-size]
    if groups is not None:
        is_same &= groups[size:] == groups[:-size]
    positions = np.flatnonzero(is_same)
    begins = np.flatnonzero(np.diff(positions, prepend=-2) != 1)
    return positions[begins], np.diff(begins, append=len(positions)) // size + 1


def find_repetitive(text: Text, max_repeats: int, max_stretch: int = 4) -> NDArray[np.bool_]:
    """Returns which lines repeat a part of up to `max_stretch` words too often, [lines]."""
    found = np.zeros(len(text.lines), np.bool_)
    words, owners = _hash_words(text)
    unspaced = np.flatnonzero(text.kinds & CharacterKind.UNSPACED)
    # Neighbours have neighbouring positions; a gap separates parts as a line does.
    runs = unspaced - np.arange(len(unspaced))
    for size in range(1, max_stretch + 1):
        begins, repeats = find_repeats(words, size, owners)
        found[owners[begins[repeats > max_repeats]]] = True
        begins, repeats = find_repeats(text.codes[unspaced], size, runs)
        found[text.lines_at(unspaced[begins[repeats > max_repeats]])] = True
    return found


def _hash_words(text: Text) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Returns a 64-bit hash and the line of each word between spaces."""
    # Line feeds between lines have no kind, and separate words too.
    is_inside = ((text.kinds & CharacterKind.SPACE) == 0) & (text.codes != 0x0A)
    begins = is_inside.copy()
    begins[1:] &= ~is_inside[:-1]
    positions = np.flatnonzero(begins)
    if not len(positions):
        return np.zeros(0, np.uint64), positions
    owners = np.repeat(np.arange(len(text.lines)), text.add(begins))
    inside = np.flatnonzero(is_inside)
    position_in_word = inside - positions[np.cumsum(begins)[inside] - 1]
    weighted = text.codes[inside] * _WEIGHTS[position_in_word % len(_WEIGHTS)]
    return np.add.reduceat(weighted, np.flatnonzero(begins[inside])), owners


def count_repeats(text: str, max_repeats: int = 3) -> int:
    """Returns the longest run of repeats of one part; 1 without a loop."""
    # A word may occur `max_repeats` times in a row: "No, no, no" is speech. Two to four words may
    # occur one time less, as in "on and on and on"; a clause said twice is a loop. A few characters
    # may occur twice as often less one, so that neither `hahaha` nor `...` is a loop; a number's
    # zeros never are.
    loop = re.compile(rf"(\D{{1,4}}?)\1{{{2 * max_repeats - 1},}}")
    loops = (
        len(match.group()) // len(match.group(1))
        for match in loop.finditer("".join(text.casefold().split()))
    )
    numbers: dict[str, int] = {}
    words = np.array([numbers.setdefault(word, len(numbers)) for word in split_folded_words(text)])
    longest = min(_LONGEST_CLAUSE, len(words) // 2) if len(numbers) < len(words) else 0
    found = [1, *loops]
    for size in range(1, longest + 1):
        min_repeats = max_repeats + (1 if size == 1 else 0 if size < _CLAUSE else -1)
        _, repeats = find_repeats(words, size)
        found += repeats[repeats >= max(2, min_repeats)].tolist()
    return max(found)
