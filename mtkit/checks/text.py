"""What lines consist of: characters by kind, words, repetition, equality, addresses, lengths."""
# A block of 10,000 lines is looked up in one table at once. So a filter costs a few numpy passes
# over a million characters instead of 10,000 Python loops.

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
import regex
from numpy.typing import NDArray

from mtkit.text.protected import find_addresses
from mtkit.text.words import UNSPACED_SCRIPTS

_MAX_PART_WORDS = 4
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

    Many of them show that a text was converted from the wrong encoding. Empty if `known` is.
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
    """Checks that a name or ISO 15924 code is a Unicode script with letters."""
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
    """Returns the share of words that are in `others`, where each counts once; 0 without words."""
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


def find_repetitive(text: Text, max_repeats: int) -> NDArray[np.bool_]:
    """Returns which lines repeat a part of up to four words too often, [lines]."""
    found = np.zeros(len(text.lines), np.bool_)
    words, owners = _hash_words(text)
    unspaced = np.flatnonzero(text.kinds & CharacterKind.UNSPACED)
    # Neighbours have neighbouring positions; a gap separates parts as a line does.
    runs = unspaced - np.arange(len(unspaced))
    for size in range(1, _MAX_PART_WORDS + 1):
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


Lengths = TypeVar("Lengths", float, NDArray[np.float64])
"""Of one line, or of many."""


def compare_lengths(
    source: Lengths, target: Lengths, length_ratio: float, smoothing: int
) -> Lengths:
    """Returns a translation's length divided by the expected one; `smoothing` is in characters."""
    return (target + smoothing) / (length_ratio * source + smoothing)


def measure_length_ratio(
    pairs: Iterable[tuple[str, ...]], measure: Callable[[str], float]
) -> float:
    """Returns target characters per source character over pairs; 1 if a side is empty."""
    source_length = target_length = 0.0
    for source, target in pairs:
        source_length += measure(source)
        target_length += measure(target)
    return target_length / source_length if source_length and target_length else 1.0
