"""The same words, or characters, again and again: what broken scrapers and models write."""

import numpy as np
from numpy.typing import NDArray

from mtkit.data.cleaning.characters import Kind, Text
from mtkit.data.cleaning.filters import Flags, RepairedRows, either_side
from mtkit.recipe.cleaning import Repetition

_LONGEST_STRETCH = 4
"""Words, or characters of a script without spaces, of the longest stretch that is looked for."""
_WEIGHTS = np.random.Generator(np.random.PCG64(0)).integers(
    2**64, size=256, dtype=np.uint64
) | np.uint64(1)
"""By position in a word: the sum of code point times weight, modulo 2^64, tells words apart."""


def find_repetitive(block: RepairedRows, settings: Repetition) -> Flags:
    """Returns which rows have a side that repeats a stretch more often than allowed."""
    return either_side(block, lambda text: _is_repetitive(text, settings.max_repeats))


def _is_repetitive(text: Text, max_repeats: int) -> Flags:
    words, owners = _words(text)
    found = np.zeros(len(text.lines), np.bool_)
    found[owners[_repeats(words, owners, max_repeats)]] = True
    positions = np.flatnonzero(text.kinds & Kind.UNSPACED)
    if len(positions):
        # Neighbours have neighbouring positions; a gap parts stretches as a line does.
        stretch = positions - np.arange(len(positions))
        repeated = positions[_repeats(text.codes[positions], stretch, max_repeats)]
        found[text.lines_at(repeated)] = True
    return found


def _words(text: Text) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Returns a 64-bit hash and the line of each word, which is what stands between spaces."""
    # Line feeds between lines have no kind, and part words too.
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


def _repeats(
    values: NDArray[np.uint64] | NDArray[np.uint32], groups: NDArray[np.int64], max_repeats: int
) -> NDArray[np.int64]:
    """Returns where stretches of values begin that stand in a row more than `max_repeats` times.

    A stretch doesn't go on in another group.
    """
    found = []
    for size in range(1, _LONGEST_STRETCH + 1):
        is_same = (values[size:] == values[:-size]) & (groups[size:] == groups[:-size])
        # One stretch after another equal to it: each of its values is as `size` values before.
        needed = size * max_repeats
        running = np.concatenate(([0], np.cumsum(is_same)))
        found.append(np.flatnonzero(running[needed:] - running[:-needed] == needed))
    return np.concatenate(found)
