"""Filters that judge a pair by its characters: each returns which pairs of a block it drops."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from ftfy.badness import is_bad
from numpy.typing import NDArray

from mtkit.data.cleaning.characters import Kind, Text
from mtkit.data.cleaning.repairs import read_c1_controls
from mtkit.recipe.cleaning import Length, LengthRatio, Letters, Script

Flags = NDArray[np.bool_]
"""One truth for each pair of a block."""


_UNSPACED_WEIGHT = 3
"""Latin letters that a letter of a script without spaces takes the place of: a translation into
Chinese or Japanese is a third to a half as long."""


@dataclass(frozen=True)
class RepairedPairs:
    """Pairs that are judged together, repaired and stripped.

    Attributes:
        source: Source side.
        target: Target side.
        is_misread: Whether a side was read in a wrong encoding, by its lines before any repair.
    """

    source: Text
    target: Text
    is_misread: Flags

    def __len__(self) -> int:
        """Returns the number of pairs."""
        return len(self.source.lines)

    def pairs(self, chosen: Flags) -> Iterator[tuple[int, str, str]]:
        """Yields index, source and target of the chosen pairs."""
        for index in np.flatnonzero(chosen).tolist():
            yield index, self.source.lines[index], self.target.lines[index]


def find_blank(block: RepairedPairs) -> Flags:
    """Returns which pairs have a side without anything in it."""
    return _either(block, lambda text: text.lengths == 0)


def find_misread(text: Text) -> Flags:
    """Returns which lines are UTF-8 that was read as Windows-1252 or Latin-1.

    A line is looked at by ftfy, which takes 17 µs, only where two to four characters in a row would
    be a character of UTF-8 if they were bytes again.

    Args:
        text: Lines before any repair: what a repair takes away, such as a soft hyphen, may be the
            second half of a letter here.
    """
    found = np.zeros(len(text.lines), np.bool_)
    leads = np.flatnonzero((text.codes >= 0xC2) & (text.codes <= 0xF4))
    if not len(leads):
        return found
    follows = np.append((text.kinds & Kind.CONTINUATION) != 0, np.zeros(3, np.bool_))
    lead = text.codes[leads]
    is_sequence = follows[leads + 1]
    is_sequence &= (lead < 0xE0) | follows[leads + 2]
    is_sequence &= (lead < 0xF0) | follows[leads + 3]
    for number in np.unique(text.lines_at(leads[is_sequence])).tolist():
        # C1 controls stand for printable characters in real text, and ftfy takes each for a fault.
        found[number] = is_bad(read_c1_controls(text.lines[number]))
    return found


def find_broken(block: RepairedPairs) -> Flags:
    """Returns which pairs were misread, or hold a character that stands for no text."""
    return block.is_misread | _either(block, lambda text: text.count(Kind.BROKEN) > 0)


def find_wrong_length(block: RepairedPairs, settings: Length) -> Flags:
    """Returns which pairs have a side that is too long or too short."""
    return _either(
        block,
        lambda text: (
            (text.lengths < settings.min_characters) | (text.lengths > settings.max_characters)
        ),
    )


def find_uneven(block: RepairedPairs, settings: LengthRatio, length_ratio: float) -> Flags:
    """Returns which pairs differ too much in length.

    Args:
        block: Pairs.
        settings: Thresholds.
        length_ratio: Target characters per source character.
    """
    source = length_ratio * block.source.lengths + settings.smoothing
    target = block.target.lengths + settings.smoothing
    ratio = target / source
    return np.maximum(ratio, 1 / ratio) > settings.max_ratio


def find_identical(block: RepairedPairs, chosen: Flags) -> Flags:
    """Returns which of the chosen pairs have the same text on both sides."""
    found = np.zeros(len(block), np.bool_)
    for index, source, target in block.pairs(chosen):
        # Most pairs part at the first letter, which takes a tenth of the time of folding all.
        if source[0].casefold()[0] == target[0].casefold()[0]:
            found[index] = source.casefold().split() == target.casefold().split()
    return found


def find_few_letters(block: RepairedPairs, settings: Letters) -> Flags:
    """Returns which pairs have a side that is mostly no letters."""

    def judge(text: Text) -> Flags:
        shown = text.lengths - text.count(Kind.SPACE)
        return text.count(Kind.LETTER | Kind.MARK) < settings.min_share * shown

    return _either(block, judge)


def find_foreign_script(
    block: RepairedPairs, settings: Script, *, has_source: bool, has_target: bool
) -> Flags:
    """Returns which pairs have a side whose letters are mostly of another script.

    Args:
        block: Pairs.
        settings: Thresholds.
        has_source: Whether the source language's scripts are known; its side isn't judged if not.
        has_target: Likewise for the target.
    """
    found = np.zeros(len(block), np.bool_)
    for text, kind, is_known in (
        (block.source, Kind.SOURCE_SCRIPT, has_source),
        (block.target, Kind.TARGET_SCRIPT, has_target),
    ):
        if is_known:
            found |= _weigh(text, kind) < settings.min_share * _weigh(text, Kind.SCRIPTED)
    return found


def _weigh(text: Text, kind: np.uint16) -> NDArray[np.int64]:
    """Returns how many letters of a kind each line has, those of unspaced scripts weighted."""
    has_kind = (text.kinds & kind) != 0
    is_unspaced = (text.kinds & Kind.UNSPACED) != 0
    return text.add(has_kind) + (_UNSPACED_WEIGHT - 1) * text.add(has_kind & is_unspaced)


def _either(block: RepairedPairs, judge: Callable[[Text], Flags]) -> Flags:
    """Returns which pairs have a side of which `judge` says so."""
    return judge(block.source) | judge(block.target)
