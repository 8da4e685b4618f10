"""Finds development and test sentences in the training text."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import regex
from numpy.typing import NDArray

from mtkit.data.cleaning.filters import Flags, RepairedRows, repair
from mtkit.data.cleaning.folding import hash_folded, make_folding
from mtkit.recipe.cleaning import Overlap
from mtkit.text.normalization import Normalization

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
