"""Finds development and test sentences in the training text.

Lines are folded for comparison: what is left without case, spaces and punctuation. `Folding.fold`
works line by line; `Folding.hash` hashes all lines of a block in a few numpy passes. The hash must
agree with the fold, so a line that normalisation changes, or whose marks have no base, is folded
first.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import regex
from numpy.typing import NDArray

from mtkit.checks.text import (
    CharacterKind,
    Text,
    build_table,
    every_character,
    read_code_points,
)
from mtkit.data.cleaning.filters import Flags, RepairedRows, repair
from mtkit.recipe.cleaning import Overlap
from mtkit.text.normalization import RULES, Normalization, UnicodeNormalizer

_BASE = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that its powers modulo 2^64 differ for any line length."""
_LAST_LETTER = "\U0003ffff"
"""There are no letters beyond planes 0 to 3; the marks there only select a letter's shape."""
_SEPARATOR = "\ue000"
"""A private-use character, which no rule changes."""

_IS_KEPT = CharacterKind.LETTER | CharacterKind.MARK | CharacterKind.NUMBER
_IS_CHANGED = np.uint16(1 << 15)
"""Normalisation may change a line with this character."""


class Folding:
    """Folds lines: normalised, reduced to letters, marks and numbers, and case-folded.

    With the tokenizer's normalisation, lines that it can't tell apart fold to the same.
    """

    def __init__(self, normalization: Normalization) -> None:
        self._normalizer = UnicodeNormalizer(normalization)
        self._flags = _base_flags().copy()
        if normalization not in RULES:
            # It isn't known which characters such a rule joins.
            self._flags |= _IS_CHANGED
        elif normalization != "identity":
            self._flags[_list_changed(self._normalizer)] |= _IS_CHANGED

    def fold(self, lines: Iterable[str]) -> list[str]:
        """Returns lines folded; drops a mark without a base, such as `´` leaves."""
        return [_strip(line).casefold() for line in self._normalizer.normalize(lines)]

    def hash(self, text: Text) -> NDArray[np.uint64]:
        """Returns what `hash_folded` returns for the folded lines."""
        hashes = _hash_lines(text)
        flags = self._flags[text.codes]
        is_changed = ((flags & _IS_CHANGED) != 0) | _find_bare_marks(flags)
        changed = _list_lines(text, is_changed)
        if len(changed):
            hashes[changed] = self._hash_normalized([text.lines[number] for number in changed])
        return hashes

    def _hash_normalized(self, lines: Sequence[str]) -> NDArray[np.uint64]:
        """Returns the hashes of lines that normalisation may change."""
        text = read_code_points(self._normalizer.normalize(lines), self._flags)
        hashes = _hash_lines(text)
        bare = _list_lines(text, _find_bare_marks(text.kinds))
        if len(bare):
            hashes[bare] = hash_folded(self.fold(lines[number] for number in bare))
        return hashes


make_folding = cache(Folding)
"""Cached: its tables take 0.2 s."""


def hash_folded(lines: Iterable[str]) -> NDArray[np.uint64]:
    """Returns the hashes of folded lines."""
    hashes = [_hash_one(line) for line in lines]
    return np.array(hashes, np.uint64)


def _strip(line: str) -> str:
    """Returns a line's letters, numbers and the marks on them."""
    kept = []
    has_base = False
    for character in line:
        major = unicodedata.category(character)[0] if character <= _LAST_LETTER else "C"
        has_base = major in "LN" or (major == "M" and has_base)
        if has_base:
            kept.append(character)
    return "".join(kept)


def _find_bare_marks(flags: NDArray[np.uint16]) -> NDArray[np.bool_]:
    """Returns which code points are marks that don't follow a letter, mark or number."""
    is_bare: NDArray[np.bool_] = (flags & CharacterKind.MARK) != 0
    is_bare[1:] &= (flags[:-1] & _IS_KEPT) == 0
    return is_bare


def _list_lines(text: Text, is_chosen: NDArray[np.bool_]) -> list[int]:
    """Returns the numbers of the lines with a chosen code point, ascending."""
    numbers: list[int] = np.unique(text.lines_at(np.flatnonzero(is_chosen))).tolist()
    return numbers


def _hash_lines(text: Text) -> NDArray[np.uint64]:
    """Returns a polynomial over each line's case-folded letters, marks and numbers."""
    widths, values = _case_folding()
    codes = np.minimum(text.codes, len(widths) - 1)
    width = widths[codes]
    ends = np.cumsum(width, dtype=np.int64)
    begins = ends - width
    position = begins - np.repeat(begins[text.starts], text.lengths + 1)
    weighted = values[codes] * _powers(int(position.max()) + 1)[position]
    return np.add.reduceat(weighted, text.starts)


def _hash_one(folded: str) -> np.uint64:
    codes = np.frombuffer(folded.encode("utf-32-le", "surrogatepass"), np.uint32)
    total: np.uint64 = (codes * _powers(len(codes))).sum(dtype=np.uint64)
    return total


@cache
def _case_folding() -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
    """Returns how many characters each code point folds to, and their polynomial; 0 if dropped."""
    characters = every_character()
    values = np.arange(len(characters) + 1, dtype=np.uint64)
    # The last entry is for all code points beyond.
    widths = (_base_flags()[: len(characters) + 1] != 0).astype(np.uint8)
    values[widths == 0] = 0
    for code in np.flatnonzero(widths).tolist():
        character = characters[code]
        if (folded := character.casefold()) != character:
            widths[code] = len(folded)
            values[code] = _hash_one(folded)
    return widths, values


@cache
def _base_flags() -> NDArray[np.uint16]:
    """Returns the kinds of the code points that are kept, and 0 for others."""
    flags = build_table((), ()) & _IS_KEPT
    flags[len(every_character()) :] = 0
    return flags


def _list_changed(normalizer: UnicodeNormalizer) -> list[int]:
    """Returns the code points that a rule of `RULES` may change in a folded line."""
    characters = [
        character for character in every_character() if not "\ud800" <= character <= "\uf8ff"
    ]
    # All at once, five times as fast as one by one. Code points that the rule turns into other
    # letters, marks or numbers count, and those that it may join with the character before.
    (joined,) = normalizer.normalize([_SEPARATOR.join(characters)])
    changed = {
        character
        for character, becomes in zip(characters, joined.split(_SEPARATOR), strict=True)
        if becomes != character and _fold_after(becomes) != _fold_after(character)
    }
    return [ord(character) for character in changed | _joining_characters()]


def _fold_after(characters: str) -> str:
    """Folds characters after a letter, which a mark needs as its base."""
    return _strip(f"a{characters}").casefold()


@cache
def _joining_characters() -> frozenset[str]:
    """Returns the characters that canonical composition may join with the one before."""
    # Hangul letters are composed by arithmetic (Unicode, section 3.12).
    joining = set(map(chr, (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))))
    for character in every_character():
        if decomposed := unicodedata.decomposition(character):
            codes = decomposed.rpartition(">")[2].split()
            joining.update(chr(int(code, 16)) for code in codes[1:] if decomposed[0] != "<")
    return frozenset(joining)


def _powers(count: int) -> NDArray[np.uint64]:
    """Returns the base's powers from 0 to `count` - 1, modulo 2^64."""
    if count <= len(_FIRST_POWERS):
        return _FIRST_POWERS[:count]
    return np.cumprod(np.append(np.uint64(1), np.full(count - 1, _BASE)), dtype=np.uint64)


_FIRST_POWERS = np.cumprod(np.append(np.uint64(1), np.full(4095, _BASE)), dtype=np.uint64)


_THREE = regex.compile(r"\p{Script=Han}")
_TWO = regex.compile(r"[\p{Script=Hiragana}\p{Script=Katakana}\uAC00-\uD7A3]")
"""Letters that count as three and as two: on FLORES-200 a Chinese letter equals 2.8 English ones,
a kana 1.7. Thai, Lao, Khmer and Burmese have no spaces either, but their sentences have as many
letters as English ones."""


@dataclass(frozen=True)
class HeldOut:
    """The development and test sets, folded; picklable.

    Attributes:
        sides: For each side, the numbers of the rows that hold each folded line.
        hashes: For each side, the sorted hashes of its folded lines.
        normalizations: How each side is normalised before folding.
    """

    sides: tuple[dict[str, frozenset[int]], ...]
    hashes: tuple[NDArray[np.uint64], ...]
    normalizations: tuple[Normalization, ...]

    @classmethod
    def of(
        cls,
        rows: Iterable[tuple[str, ...]],
        normalizations: tuple[Normalization, ...] = ("nmt_nfkc", "nmt_nfkc"),
    ) -> "HeldOut":
        """Returns the folded form of held-out rows, given as the tokenizer will see them."""
        # A training line is repaired before it is compared.
        columns = list(zip(*(map(repair, row) for row in rows), strict=True))
        sides = tuple(
            _number_folded(make_folding(normalization).fold(lines))
            for normalization, lines in zip(
                normalizations, columns or [()] * len(normalizations), strict=True
            )
        )
        hashes = tuple(np.sort(hash_folded(side)) for side in sides)
        return cls(sides, hashes, normalizations)


def _number_folded(lines: Iterable[str]) -> dict[str, frozenset[int]]:
    """Returns the row numbers of each folded line, without blank ones."""
    numbers: dict[str, set[int]] = {}
    for number, folded in enumerate(lines):
        if folded:
            numbers.setdefault(folded, set()).add(number)
    return {folded: frozenset(found) for folded, found in numbers.items()}


def find_overlap(block: RepairedRows, settings: Overlap, held_out: HeldOut, chosen: Flags) -> Flags:
    """Returns which of the chosen rows have a side that is in the held-out sets."""
    if not len(block) or not any(held_out.sides):
        return np.zeros(len(block), np.bool_)
    foldings = [make_folding(normalization) for normalization in held_out.normalizations]
    is_candidate = np.zeros(len(block), np.bool_)
    for folding, side, hashes in zip(foldings, block.sides, held_out.hashes, strict=True):
        is_candidate |= _is_in(folding.hash(side), hashes)

    def is_held_out(*lines: str) -> bool:
        folded = [folding.fold([line])[0] for folding, line in zip(foldings, lines, strict=True)]
        rows = [
            side.get(line, frozenset()) for side, line in zip(held_out.sides, folded, strict=True)
        ]
        is_long = any(
            bool(numbers) and count_letters(line) >= settings.min_letters
            for numbers, line in zip(rows, folded, strict=True)
        )
        # A short line such as "Yes." proves nothing alone, but both sides together do.
        is_same_pair = len(rows) > 1 and bool(frozenset.intersection(*rows))
        return is_long or is_same_pair

    return block.judge(chosen & is_candidate, is_held_out)


def count_letters(folded: str) -> int:
    """Returns how many Latin letters a folded line is worth."""
    return len(folded) + 2 * len(_THREE.findall(folded)) + len(_TWO.findall(folded))


def _is_in(hashes: NDArray[np.uint64], known: NDArray[np.uint64]) -> Flags:
    """Returns which hashes are among the sorted known ones."""
    if not len(known):
        return np.zeros(len(hashes), np.bool_)
    indices = np.searchsorted(known, hashes)
    is_known: Flags = known[np.minimum(indices, len(known) - 1)] == hashes
    return is_known
