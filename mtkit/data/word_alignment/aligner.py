"""A trained aligner: links between the words of pairs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.data.sources.pharaoh import Link
from mtkit.data.word_alignment.hidden_markov import Emissions, find_by_order
from mtkit.data.word_alignment.symmetrize import grow_diag_final_and
from mtkit.data.word_alignment.word_table import (
    NO_PAIR,
    Floats,
    Numbers,
    WordNumbers,
    WordPairs,
    pad_words,
)

MAX_WORDS = 400
"""Words of a side, from which on a pair isn't aligned: time grows with the square."""
Cells = NDArray[np.int32]
_CELLS_AT_ONCE = 200_000
UNSEEN = 1e-7
"""Probability of a word, given one that it was never seen with; of an unknown one also without."""
_COPIED = 0.1
"""The same where both are spelled alike, as names and numbers are."""


@dataclass(frozen=True)
class Direction:
    """The model of one side's words, given the other's.

    Attributes:
        by_pair: Probability of a word given another, by `WordPairs`.
        by_none: Probability of each word that has none; the last one is of unknown words.
        jumps: Weight of each jump; see `find_by_order`.
    """

    by_pair: Floats
    by_none: Floats
    jumps: Floats


class WordAligner:
    """Aligns the words of pairs by a hidden Markov model from each side.

    Args:
        sources: Source words by number.
        targets: Target words.
        pairs: Words that were seen together.
        forward: The model of target words, given source words.
        backward: The model of source words, given target words.
        none: Probability that a word has no counterpart.
    """

    def __init__(
        self,
        sources: WordNumbers,
        targets: WordNumbers,
        pairs: WordPairs,
        forward: Direction,
        backward: Direction,
        *,
        none: float,
    ) -> None:
        self._sources, self._targets, self._pairs = sources, targets, pairs
        self._forward, self._backward, self._none = forward, backward, none

    def save(self, path: Path) -> None:
        """Writes the aligner, for other processes to `load`."""
        # No word holds a space.
        arrays: dict[str, NDArray[Any]] = {
            name: np.frombuffer(" ".join(numbers.numbers).encode(), np.uint8)
            for name, numbers in (("sources", self._sources), ("targets", self._targets))
        }
        for name, direction in (("forward", self._forward), ("backward", self._backward)):
            arrays |= {f"{name}_{key}": value for key, value in vars(direction).items()}
        arrays |= {"keys": self._pairs.keys, "none": np.array(self._none)}
        with path.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: Path) -> "WordAligner":
        """Returns an aligner that `save` wrote."""
        with np.load(path) as found:
            sources, targets = (
                WordNumbers(found[name].tobytes().decode().split(" "))
                for name in ("sources", "targets")
            )
            forward, backward = (
                Direction(*(found[f"{name}_{key}"] for key in ("by_pair", "by_none", "jumps")))
                for name in ("forward", "backward")
            )
            pairs = WordPairs(found["keys"], max(len(targets), 1))
            return cls(sources, targets, pairs, forward, backward, none=float(found["none"]))

    def align(
        self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]
    ) -> list[set[Link]]:
        """Returns the links of each pair, given its words; none of a very long one."""
        found: list[set[Link]] = [set() for _ in sources]
        lengths = [
            (len(source), len(target)) for source, target in zip(sources, targets, strict=True)
        ]
        for block in cut_blocks(lengths, max_words=MAX_WORDS, max_cells=_CELLS_AT_ONCE):
            of_block = [sources[index] for index in block], [targets[index] for index in block]
            for index, links in zip(block, self._align(*of_block), strict=True):
                found[index] = links
        return found

    def _align(
        self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]
    ) -> Iterator[set[Link]]:
        source_numbers, source_lengths = pad_words([self._sources.find(each) for each in sources])
        target_numbers, target_lengths = pad_words([self._targets.find(each) for each in targets])
        cells = self._pairs.find(source_numbers, target_numbers)
        unseen = np.full(cells.shape, UNSEEN)
        for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
            for word in set(source) & set(target):
                is_alike = np.ix_(
                    [other == word for other in target], [other == word for other in source]
                )
                unseen[row, : len(target), : len(source)][is_alike] = _COPIED
        forward, backward = (
            find_by_order(
                Emissions(
                    _emit(direction, turn(cells), turn(unseen), given_lengths),
                    direction.by_none[words],
                    given_lengths,
                    lengths,
                ),
                direction.jumps,
                self._none,
            )
            for direction, turn, words, given_lengths, lengths in (
                (self._forward, np.asarray, target_numbers, source_lengths, target_lengths),
                (self._backward, _turn, source_numbers, target_lengths, source_lengths),
            )
        )
        for row, (num_sources, num_targets) in enumerate(
            zip(source_lengths.tolist(), target_lengths.tolist(), strict=True)
        ):
            of_targets = _choose(
                forward.by_source[row, :num_targets, :num_sources], forward.by_none[row]
            )
            of_sources = _choose(
                backward.by_source[row, :num_sources, :num_targets], backward.by_none[row]
            )
            yield grow_diag_final_and(
                {(source, target) for target, source in of_targets}, set(of_sources)
            )


def _emit(direction: Direction, cells: Cells, unseen: Floats, given_lengths: Numbers) -> Floats:
    """Returns the probability of each word given each of the other side, [batch, words, given]."""
    seen = np.where(cells == NO_PAIR, 0.0, direction.by_pair[cells])
    is_given = np.arange(cells.shape[2]) < given_lengths[:, None]
    return np.maximum(seen, unseen) * is_given[:, None]


def _turn(block: NDArray[Any]) -> NDArray[Any]:
    """Returns a block's words with the sides swapped."""
    return block.transpose(0, 2, 1)


def _choose(by_source: Floats, by_none: Floats) -> Iterator[tuple[int, int]]:
    """Yields each word that is more likely aligned to another than to none, and that other."""
    most = by_source.argmax(axis=1)
    for index, other in enumerate(most.tolist()):
        if by_source[index, other] > by_none[index]:
            yield index, other


def cut_blocks(
    lengths: Sequence[tuple[int, int]], *, max_words: int, max_cells: int
) -> Iterator[list[int]]:
    """Yields the pairs that are aligned together: alike ones, so that padding is little.

    Args:
        lengths: Words of source and target of each pair.
        max_words: Words of a side, at most; pairs with a longer or an empty side are left out.
        max_cells: Source words times target words of a block, padded; one pair may have more.
    """
    chosen = [
        index for index, pair in enumerate(lengths) if min(pair) > 0 and max(pair) <= max_words
    ]
    block: list[int] = []
    widest = 0
    for index in sorted(chosen, key=lambda index: lengths[index]):
        longer = max(widest, lengths[index][1])
        if block and lengths[index][0] * longer * (len(block) + 1) > max_cells:
            yield block
            block, longer = [], lengths[index][1]
        block.append(index)
        widest = longer
    if block:
        yield block
