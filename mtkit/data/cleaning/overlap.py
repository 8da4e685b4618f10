"""Development and test sentences inside the training text."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import regex
from numpy.typing import NDArray

from mtkit.data.cleaning.filters import Flags, RepairedPairs
from mtkit.data.cleaning.folding import hash_folded, make_folding
from mtkit.data.cleaning.repairs import repair
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
        sources: Pairs, by number, in which each folded source stands.
        targets: Pairs in which each folded target stands.
        source_hashes: Hash of each folded source, sorted.
        target_hashes: Hash of each folded target, sorted.
        normalizations: How sources and targets were normalised before they were folded.
    """

    sources: dict[str, frozenset[int]]
    targets: dict[str, frozenset[int]]
    source_hashes: NDArray[np.uint64]
    target_hashes: NDArray[np.uint64]
    normalizations: tuple[Normalization, Normalization]

    @classmethod
    def of(
        cls,
        pairs: Iterable[tuple[str, str]],
        normalizations: tuple[Normalization, Normalization] = ("nmt_nfkc", "nmt_nfkc"),
    ) -> "HeldOut":
        """Returns what the filter needs to know of held-out pairs.

        Args:
            pairs: Source and target lines as the tokenizer will see them.
            normalizations: How the tokenizer normalises each side.
        """
        # A training line is repaired before it is compared.
        sides = list(zip(*(map(repair, pair) for pair in pairs), strict=True)) or [(), ()]
        source, target = (
            _number_folded(make_folding(normalization).fold(lines))
            for normalization, lines in zip(normalizations, sides, strict=True)
        )
        return cls(
            source,
            target,
            np.sort(hash_folded(source)),
            np.sort(hash_folded(target)),
            normalizations,
        )


def _number_folded(lines: Iterable[str]) -> dict[str, frozenset[int]]:
    """Returns by folded line, blank ones left out, the numbers of the pairs that it stands in."""
    numbers: dict[str, set[int]] = {}
    for number, folded in enumerate(lines):
        if folded:
            numbers.setdefault(folded, set()).add(number)
    return {folded: frozenset(found) for folded, found in numbers.items()}


def find_overlap(
    block: RepairedPairs, settings: Overlap, held_out: HeldOut, chosen: Flags
) -> Flags:
    """Returns which of the chosen pairs have a side that stands in the held-out sets."""
    found = np.zeros(len(block), np.bool_)
    if not len(block) or not (held_out.sources or held_out.targets):
        return found
    foldings = [make_folding(normalization) for normalization in held_out.normalizations]
    is_candidate = _is_in(foldings[0].hash(block.source), held_out.source_hashes)
    is_candidate |= _is_in(foldings[1].hash(block.target), held_out.target_hashes)
    for index, *pair in block.pairs(chosen & is_candidate):
        source, target = (
            folding.fold([line])[0] for folding, line in zip(foldings, pair, strict=True)
        )
        sources = held_out.sources.get(source, frozenset())
        targets = held_out.targets.get(target, frozenset())
        found[index] = (
            (bool(sources) and count_letters(source) >= settings.min_letters)
            or (bool(targets) and count_letters(target) >= settings.min_letters)
            or bool(sources & targets)
        )
    return found


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
