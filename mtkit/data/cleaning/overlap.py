"""Development and test sentences inside the training text."""

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
"""Letters that count for three, and for two: on FLORES-200 a letter of Chinese stands for 2.8
letters of English, a kana for 1.7. Thai, Lao, Khmer and Burmese have no spaces either, but their
sentences have as many letters as English ones."""


@dataclass(frozen=True)
class HeldOut:
    """The development and test sets, folded; it can be sent to another process.

    Attributes:
        sides: For each side, rows by number in which each folded line stands: of pairs source and
            target, of text in one language the text alone.
        hashes: For each side the hash of each folded line, sorted.
        normalizations: How each side was normalised before it was folded.
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
        """Returns what the filter needs to know of held-out rows.

        Args:
            rows: Source and target lines, or lines of one language, as the tokenizer will see them.
            normalizations: How the tokenizer normalises each side.
        """
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
    """Returns by folded line, blank ones left out, the numbers of the pairs that it stands in."""
    numbers: dict[str, set[int]] = {}
    for number, folded in enumerate(lines):
        if folded:
            numbers.setdefault(folded, set()).add(number)
    return {folded: frozenset(found) for folded, found in numbers.items()}


def find_overlap(block: RepairedRows, settings: Overlap, held_out: HeldOut, chosen: Flags) -> Flags:
    """Returns which of the chosen rows have a side that stands in the held-out sets."""
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
        # A short line alone, such as "Yes.", says nothing: both sides together do.
        is_same_pair = len(rows) > 1 and bool(frozenset.intersection(*rows))
        return is_long or is_same_pair

    return block.judge(chosen & is_candidate, is_held_out)


def count_letters(folded: str) -> int:
    """Returns how many letters of Latin script a folded line is worth."""
    return len(folded) + 2 * len(_THREE.findall(folded)) + len(_TWO.findall(folded))


def _is_in(hashes: NDArray[np.uint64], known: NDArray[np.uint64]) -> Flags:
    """Returns which hashes are among the known ones, which are sorted."""
    if not len(known):
        return np.zeros(len(hashes), np.bool_)
    indices = np.searchsorted(known, hashes)
    is_known: Flags = known[np.minimum(indices, len(known) - 1)] == hashes
    return is_known
