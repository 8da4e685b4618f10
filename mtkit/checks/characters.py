"""The kind of each code point, and a block's lines as one array of kinds."""
# A block of 10,000 lines is looked up in one table at once. So a filter costs a few numpy passes
# over a million characters instead of 10,000 Python loops.

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import regex
from numpy.typing import NDArray

from mtkit.text.words import UNSPACED_SCRIPTS

_LAST_ASCII = 0x7F
_NUM_CODE_POINTS = 0x110000
_NUM_LOW_PLANES = 0x40000
"""Beyond are planes 14 to 16 and unassigned ones, without letters, numbers or spaces."""


class CharacterKind:
    """Properties of a character; a table has the sum of each code point's."""

    LETTER = np.uint16(1)
    """General category L."""
    MARK = np.uint16(2)
    """General category M."""
    NUMBER = np.uint16(4)
    """General category N."""
    DECIMAL = np.uint16(8)
    """General category Nd."""
    SPACE = np.uint16(16)
    """A space, by `str.isspace`."""
    BROKEN = np.uint16(32)
    """A control, surrogate, private-use character, noncharacter or U+FFFD."""
    CONTINUATION = np.uint16(64)
    """A byte 0x80 to 0xBF read as Windows-1252 or Latin-1."""
    UNSPACED = np.uint16(128)
    """A letter or mark of a script without spaces between words."""
    SCRIPTED = np.uint16(256)
    """A letter of one script, neither Common nor Inherited."""
    SOURCE_SCRIPT = np.uint16(512)
    """A letter of a script of the source language."""
    TARGET_SCRIPT = np.uint16(1024)
    """A letter of a script of the target language."""


UNDEFINED_IN_WINDOWS_1252 = frozenset((0x81, 0x8D, 0x8F, 0x90, 0x9D))
"""Bytes without a character there; the Encoding Standard keeps them as C1 controls."""


@dataclass(frozen=True)
class Text:
    """One side of a block.

    Attributes:
        codes: Code points of all lines, each line followed by one line feed.
        kinds: `CharacterKind` of each code point, 0 for the line feeds that end lines.
        starts: Position of each line's first code point.
    """

    lines: Sequence[str]
    codes: NDArray[np.uint32]
    kinds: NDArray[np.uint16]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def count(self, kind: np.uint16) -> NDArray[np.int64]:
        """Returns the number of characters of any of these kinds in each line."""
        return self.add((self.kinds & kind) != 0)

    def add(self, values: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Returns each line's sum of `values`, one for each code point."""
        if not self.lines:
            return np.zeros(0, np.int64)
        return np.add.reduceat(values, self.starts, dtype=np.int64)

    def lines_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the indices of the lines that contain these positions in `codes`."""
        return np.searchsorted(self.starts, positions, side="right") - 1


def read_code_points(lines: Sequence[str], table: NDArray[np.uint16]) -> Text:
    """Returns lines as arrays of code points and kinds, by a table from `build_table`."""
    lengths = np.fromiter(map(len, lines), np.int64, len(lines))
    starts = np.zeros(len(lines), np.int64)
    np.cumsum(lengths[:-1] + 1, out=starts[1:])
    joined = "\n".join(lines) + "\n" if lines else ""
    # UTF-8 files contain no lone surrogate; it is a broken character like others.
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32)
    kinds = table[codes]
    kinds[starts + lengths] = 0
    return Text(lines, codes, kinds, starts, lengths)


@dataclass(frozen=True)
class StrangeLetters:
    """Letters that a text's language doesn't have, and the number of lines that hold some."""

    num_lines: int
    counts: Counter[str]


def find_strange(text: Text, script: np.uint16, known: frozenset[str]) -> StrangeLetters:
    """Returns the letters of a script beyond ASCII, with spaces between words, that aren't known.

    Many of them show that a text was converted from the wrong encoding. None if none is known.
    """
    is_letter = (text.codes > _LAST_ASCII) & ((text.kinds & script) != 0)
    positions = np.flatnonzero(is_letter & ((text.kinds & CharacterKind.UNSPACED) == 0))
    if not known or not len(positions):
        return StrangeLetters(0, Counter())
    positions = positions[~np.isin(text.codes[positions], list(map(ord, known)))]
    letters = map(chr, text.codes[positions].tolist())
    return StrangeLetters(len(np.unique(text.lines_at(positions))), Counter(letters))


def build_table(source_scripts: Iterable[str], target_scripts: Iterable[str]) -> NDArray[np.uint16]:
    """Returns each code point's `CharacterKind`, by Unicode names or ISO 15924 codes of scripts."""
    table = _base_table().copy()
    for scripts, kind in (
        (source_scripts, CharacterKind.SOURCE_SCRIPT),
        (target_scripts, CharacterKind.TARGET_SCRIPT),
    ):
        for script in scripts:
            table[_in_script(script) & _is(table, CharacterKind.SCRIPTED)] |= kind
    return table


def is_script(name: str) -> bool:
    """Returns whether a name or ISO 15924 code is a Unicode script with letters."""
    if not name.replace("_", "").isalnum():
        return False
    try:
        return bool((_in_script(name) & _is(_base_table(), CharacterKind.SCRIPTED)).any())
    except regex.error:
        return False


@cache
def every_character() -> str:
    """Returns the code points of planes 0 to 3 in order, as one string."""
    return np.arange(_NUM_LOW_PLANES, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


@cache
def _base_table() -> NDArray[np.uint16]:
    categories = np.array(list(map(unicodedata.category, every_character())))
    table = np.zeros(_NUM_CODE_POINTS, np.uint16)
    low = table[:_NUM_LOW_PLANES]
    major = categories.astype("U1")
    for letter, kind in (
        ("L", CharacterKind.LETTER),
        ("M", CharacterKind.MARK),
        ("N", CharacterKind.NUMBER),
    ):
        low[major == letter] |= kind
    # Plane 14 has marks: variation selectors of Han characters.
    table[0xE0100:0xE01F0] |= CharacterKind.MARK
    low[categories == "Nd"] |= CharacterKind.DECIMAL
    low[np.fromiter(map(str.isspace, every_character()), np.bool_)] |= CharacterKind.SPACE
    for category in ("Cc", "Cs", "Co"):
        low[categories == category] |= CharacterKind.BROKEN
    table[0xF0000:] |= CharacterKind.BROKEN
    table[0xFDD0:0xFDF0] |= CharacterKind.BROKEN
    for last in (0xFFFE, 0xFFFF):
        table[last::0x10000] |= CharacterKind.BROKEN
    table[0xFFFD] |= CharacterKind.BROKEN
    for byte in range(0x80, 0xC0):
        table[byte] |= CharacterKind.CONTINUATION
        if byte not in UNDEFINED_IN_WINDOWS_1252:
            table[ord(bytes([byte]).decode("cp1252"))] |= CharacterKind.CONTINUATION
    text = CharacterKind.LETTER | CharacterKind.MARK
    for script in UNSPACED_SCRIPTS:
        table[_in_script(script) & _is(table, text)] |= CharacterKind.UNSPACED
    shared = _in_script("Common") | _in_script("Inherited")
    table[_is(table, CharacterKind.LETTER) & ~shared] |= CharacterKind.SCRIPTED
    return table


def _is(table: NDArray[np.uint16], kind: np.uint16) -> NDArray[np.bool_]:
    has: NDArray[np.bool_] = (table & kind) != 0
    return has


def _in_script(script: str) -> NDArray[np.bool_]:
    found = np.zeros(_NUM_CODE_POINTS, np.bool_)
    for run in regex.finditer(rf"\p{{Script={script}}}+", every_character()):
        found[run.start() : run.end()] = True
    return found
