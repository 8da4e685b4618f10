"""The same words, or characters, again and again: what broken scrapers and looping models write."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.checks.characters import Kind, Text
from mtkit.checks.words import split_words

_WEIGHTS = np.random.Generator(np.random.PCG64(0)).integers(
    2**64, size=256, dtype=np.uint64
) | np.uint64(1)
"""By position in a word: the sum of code point times weight, modulo 2^64, tells words apart."""
_CLAUSE = 5
"""Words of a stretch that is a whole clause."""
_LONGEST_CLAUSE = 20


def find_repeats(
    values: NDArray[Any], size: int, groups: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns where runs of equal stretches begin, and how often the stretch stands in each.

    Args:
        values: Words or characters, [values].
        size: Values of a stretch.
        groups: Rising numbers, such as those of lines: a run is of one group.

    Returns:
        Both [runs]; each stretch stands in a row once or more, and is cut off after the last time.
    """
    # One stretch after another equal to it: each of its values is as `size` values before.
    is_same = values[size:] == values[:-size]
    if groups is not None:
        is_same &= groups[size:] == groups[:-size]
    positions = np.flatnonzero(is_same)
    begins = np.flatnonzero(np.diff(positions, prepend=-2) != 1)
    return positions[begins], np.diff(begins, append=len(positions)) // size + 1


def find_repetitive(text: Text, max_repeats: int, max_stretch: int = 4) -> NDArray[np.bool_]:
    """Returns which lines repeat a stretch more often than allowed, [lines].

    Args:
        text: Lines.
        max_repeats: Times in a row that the same stretch may occur.
        max_stretch: Words between spaces, or characters of a script without spaces, of a stretch.
    """
    found = np.zeros(len(text.lines), np.bool_)
    words, owners = _hash_words(text)
    unspaced = np.flatnonzero(text.kinds & Kind.UNSPACED)
    # Neighbours have neighbouring positions; a gap separates stretches as a line does.
    runs = unspaced - np.arange(len(unspaced))
    for size in range(1, max_stretch + 1):
        begins, repeats = find_repeats(words, size, owners)
        found[owners[begins[repeats > max_repeats]]] = True
        begins, repeats = find_repeats(text.codes[unspaced], size, runs)
        found[text.lines_at(unspaced[begins[repeats > max_repeats]])] = True
    return found


def _hash_words(text: Text) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Returns a 64-bit hash and the line of each word, which is what stands between spaces."""
    # Line feeds between lines have no kind, and separate words too.
    is_inside = ((text.kinds & Kind.SPACE) == 0) & (text.codes != 0x0A)
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
    """Returns the longest run of repeats of one stretch; 1 where none is a loop.

    Args:
        text: The text.
        max_repeats: Times in a row that a word may occur: "No, no, no" is speech. Two to four words
            may once less, as in "on and on and on"; a clause said twice is a loop. A few characters
            may twice as often less one, so that neither `hahaha` nor `...` is a loop; nor are a
            number's zeros.
    """
    loop = re.compile(rf"(\D{{1,4}}?)\1{{{2 * max_repeats - 1},}}")
    loops = (
        len(match.group()) // len(match.group(1))
        for match in loop.finditer("".join(text.casefold().split()))
    )
    numbers: dict[str, int] = {}
    words = np.array([numbers.setdefault(word, len(numbers)) for word in split_words(text)])
    longest = min(_LONGEST_CLAUSE, len(words) // 2) if len(numbers) < len(words) else 0
    found = [1, *loops]
    for size in range(1, longest + 1):
        min_repeats = max_repeats + (1 if size == 1 else 0 if size < _CLAUSE else -1)
        _, repeats = find_repeats(words, size)
        found += repeats[repeats >= max(2, min_repeats)].tolist()
    return max(found)
