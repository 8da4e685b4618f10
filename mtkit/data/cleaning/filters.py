"""The filters: each returns which rows of a block it drops, by its own thresholds."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from ftfy.badness import is_bad
from numpy.typing import NDArray

from mtkit.checks.numbers import is_often_spelled_out
from mtkit.checks.text import (
    UNDEFINED_IN_WINDOWS_1252,
    CharacterKind,
    Text,
    compare_lengths,
    find_repetitive,
    is_same_text,
    list_lacking_addresses,
)
from mtkit.recipe.cleaning import (
    Length,
    LengthRatio,
    Letters,
    Numbers,
    Repetition,
    Script,
    Urls,
)
from mtkit.text.matching_numbers import find_numbers, have_matching_numbers, match_numbers
from mtkit.text.protected import find_addresses, find_site

_C1_CONTROLS = {
    code: bytes([code]).decode("cp1252")
    for code in range(0x80, 0xA0)
    if code not in UNDEFINED_IN_WINDOWS_1252
}
"""Windows-1252 bytes that were read as Latin-1 (WHATWG Encoding Standard, section 4.2)."""

_REPAIRS: dict[str, dict[int, str]] = {
    "c1_control": _C1_CONTROLS,
    # Line ends for some program, but not in a file with one sentence per line.
    "separator": dict.fromkeys((0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x2028, 0x2029), " "),
    "byte_order_mark": {0xFEFF: ""},
    "zero_width_space": {0x200B: ""},
    "soft_hyphen": {0x00AD: ""},
}
REPAIRS = tuple(_REPAIRS)
_ALL_REPAIRS = {code: to for repairs in _REPAIRS.values() for code, to in repairs.items()}
_IS_STRAY = np.isin(np.arange(0x10000), list(_ALL_REPAIRS))

_EDGES = "".join(
    character
    for character in map(chr, range(0x3001))
    # U+0085 is a Windows-1252 ellipsis, and U+001C to U+001F are controls: filters judge both.
    if character.isspace() and character not in "\x1c\x1d\x1e\x1f\x85"
)
Flags = NDArray[np.bool_]
"""One bool per row of a block; a row is a pair, or a line of text in one language."""
_UNSPACED_WEIGHT = 3
"""Latin letters per letter of a script without spaces: a translation into Chinese or Japanese is
a third to half as long."""
_REPLACEMENT = 0xFFFD
_QUOTED = re.compile(r"»(\w{1,3})«")
_ADDRESS_MARKERS = ("://", "@", "www.", "WWW.")


def strip(line: str) -> str:
    """Returns a line without spaces at its ends; keeps controls that `str.strip` removes."""
    return line.strip(_EDGES)


def repair(line: str) -> str:
    """Returns a line with its stray characters repaired, stripped."""
    return strip(line.translate(_ALL_REPAIRS))


def repair_lines(text: Text) -> tuple[list[str], dict[str, int]]:
    """Returns the lines repaired and stripped, and how many each kind of repair changed."""
    lines = list(map(strip, text.lines))
    positions = np.flatnonzero(_IS_STRAY[np.minimum(text.codes, 0xFFFF)])
    # Line feeds between lines have no kind.
    positions = positions[(text.codes[positions] != 0x0A) | (text.kinds[positions] != 0)]
    owners = text.lines_at(positions)
    changed = {}
    for kind, repairs in _REPAIRS.items():
        is_this = np.isin(text.codes[positions], list(repairs))
        changed[kind] = len(np.unique(owners[is_this]))
    for number in np.unique(owners).tolist():
        lines[number] = repair(text.lines[number])
    return lines, changed


def read_c1_controls(line: str) -> str:
    """Returns a line with its C1 controls read as Windows-1252; repairs nothing else."""
    return line.translate(_C1_CONTROLS)


@dataclass(frozen=True)
class RepairedRows:
    """Pairs, or lines in one language, that are judged together, repaired and stripped.

    Attributes:
        sides: Source and target, or the text alone.
        is_misread: Whether a side was read in a wrong encoding, judged before any repair.
    """

    sides: tuple[Text, ...]
    is_misread: Flags

    def __len__(self) -> int:
        """Returns the number of rows."""
        return len(self.sides[0].lines)

    @property
    def source(self) -> Text:
        """The source of pairs."""
        return self.sides[0]

    @property
    def target(self) -> Text:
        """The target of pairs."""
        return self.sides[1]

    def judge(self, chosen: Flags, is_bad: Callable[..., bool]) -> Flags:
        """Returns which of the chosen rows are bad, judged one by one by their lines."""
        found = np.zeros(len(self), np.bool_)
        for index in np.flatnonzero(chosen).tolist():
            found[index] = is_bad(*(side.lines[index] for side in self.sides))
        return found


def find_blank(block: RepairedRows) -> Flags:
    """Returns which rows have an empty side."""
    return either_side(block, lambda text: text.lengths == 0)


def find_misread(text: Text) -> Flags:
    """Returns which lines are UTF-8 that was read as Windows-1252 or Latin-1.

    Lines must not be repaired yet: a soft hyphen may be the second half of a letter here. ftfy
    takes 17 µs per line, so it only sees lines where two to four neighbouring characters would be a
    UTF-8 character if they were bytes.
    """
    found = np.zeros(len(text.lines), np.bool_)
    leads = np.flatnonzero((text.codes >= 0xC2) & (text.codes <= 0xF4))
    if not len(leads):
        return found
    follows = np.append((text.kinds & CharacterKind.CONTINUATION) != 0, np.zeros(3, np.bool_))
    lead = text.codes[leads]
    is_sequence = follows[leads + 1]
    is_sequence &= (lead < 0xE0) | follows[leads + 2]
    is_sequence &= (lead < 0xF0) | follows[leads + 3]
    for number in np.unique(text.lines_at(leads[is_sequence])).tolist():
        # C1 controls mean printable characters in real text, but ftfy counts each as a fault.
        # »ß« looks like UTF-8 too.
        line = _QUOTED.sub(r'"\1"', read_c1_controls(text.lines[number]))
        found[number] = is_bad(line)
    return found


def find_broken(block: RepairedRows) -> Flags:
    """Returns which rows were misread, or hold a character that isn't text."""
    return block.is_misread | either_side(block, _find_broken_lines)


def _find_broken_lines(text: Text) -> Flags:
    is_broken = text.count(CharacterKind.BROKEN) > 0
    for number in np.flatnonzero(is_broken).tolist():
        # A text about the character U+FFFD may show it.
        if "fffd" in text.lines[number].casefold():
            places = slice(text.starts[number], text.starts[number] + text.lengths[number])
            is_other = text.codes[places] != _REPLACEMENT
            is_broken[number] = bool((text.kinds[places][is_other] & CharacterKind.BROKEN).any())
    return is_broken


def find_wrong_length(block: RepairedRows, settings: Length) -> Flags:
    """Returns which rows have a side that is too long or too short."""
    return either_side(
        block,
        lambda text: (
            (text.lengths < settings.min_characters) | (text.lengths > settings.max_characters)
        ),
    )


def find_uneven(block: RepairedRows, settings: LengthRatio, length_ratio: float) -> Flags:
    """Returns which pairs differ too much in length; the ratio is target to source characters."""
    source, target = (side.lengths.astype(np.float64) for side in block.sides)
    ratio = compare_lengths(source, target, length_ratio, settings.smoothing)
    return np.maximum(ratio, 1 / ratio) > settings.max_ratio


def find_identical(block: RepairedRows, chosen: Flags) -> Flags:
    """Returns which of the chosen pairs have the same text on both sides."""
    return block.judge(chosen, is_same_text)


def find_few_letters(block: RepairedRows, settings: Letters) -> Flags:
    """Returns which rows have a side with too few letters."""

    def judge(text: Text) -> Flags:
        shown = text.lengths - text.count(CharacterKind.SPACE)
        return text.count(CharacterKind.LETTER | CharacterKind.MARK) < settings.min_share * shown

    return either_side(block, judge)


def find_foreign_script(block: RepairedRows, settings: Script, are_known: Sequence[bool]) -> Flags:
    """Returns which rows have a side mostly in another script, of the sides with known scripts."""
    found = np.zeros(len(block), np.bool_)
    kinds = (CharacterKind.SOURCE_SCRIPT, CharacterKind.TARGET_SCRIPT)[: len(block.sides)]
    for text, kind, is_known in zip(block.sides, kinds, are_known, strict=True):
        if is_known:
            found |= _weigh(text, kind) < settings.min_share * _weigh(text, CharacterKind.SCRIPTED)
    return found


def find_other_numbers(block: RepairedRows, settings: Numbers, chosen: Flags) -> Flags:
    """Returns which of the chosen pairs hold different numbers."""

    def have_others(source: str, target: str) -> bool:
        ours, theirs = (find_numbers(line, settings.min_value) for line in (source, target))
        if max(ours.total(), theirs.total()) < settings.min_numbers:
            return False
        missing, added = ours - theirs, theirs - ours
        if not (missing and added) and all(map(is_often_spelled_out, missing + added)):
            return False
        # Few pairs need all readings, which are a hundred times slower.
        return not match_numbers(ours, theirs, settings.min_match) and not have_matching_numbers(
            source, target, share=settings.min_match, min_value=settings.min_value
        )

    digits = [text.count(CharacterKind.DECIMAL) for text in (block.source, block.target)]
    # That many numbers take at least that many digits.
    is_candidate = np.maximum(*digits) >= settings.min_numbers * len(str(settings.min_value))
    return block.judge(chosen & is_candidate, have_others)


def find_other_addresses(block: RepairedRows, settings: Urls, chosen: Flags) -> Flags:
    """Returns which of the chosen pairs hold different web or e-mail addresses."""

    def have_others(source: str, target: str) -> bool:
        if not any(sign in line for line in (source, target) for sign in _ADDRESS_MARKERS):
            return False
        num_addresses = num_lacking = 0
        for line, other in ((source, target), (target, source)):
            num_addresses += len(find_addresses(line.casefold()))
            sites = list(map(find_site, find_addresses(other.casefold())))
            for host, site in map(find_site, list_lacking_addresses(line, other)):
                # en.wikipedia.org goes with de.wikipedia.org.
                num_lacking += all(host == each or site != of for each, of in sites)
        return num_addresses - num_lacking < settings.min_match * num_addresses

    return block.judge(chosen, have_others)


def find_repeated(block: RepairedRows, settings: Repetition) -> Flags:
    """Returns which rows have a side that repeats a stretch more often than allowed."""
    return either_side(block, lambda text: find_repetitive(text, settings.max_repeats))


def _weigh(text: Text, kind: np.uint16) -> NDArray[np.int64]:
    """Returns each line's letters of a kind, those of unspaced scripts weighted."""
    has_kind = (text.kinds & kind) != 0
    is_unspaced = (text.kinds & CharacterKind.UNSPACED) != 0
    return text.add(has_kind) + (_UNSPACED_WEIGHT - 1) * text.add(has_kind & is_unspaced)


def either_side(block: RepairedRows, judge: Callable[[Text], Flags]) -> Flags:
    """Returns which rows have a side for which `judge` is True."""
    found: Flags = np.logical_or.reduce([judge(side) for side in block.sides])
    return found
