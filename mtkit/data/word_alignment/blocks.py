"""Pairs of alike lengths, padded so that they are aligned together."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mtkit.data.word_alignment.word_table import Floats, Numbers, WordPairs, make_keys, pad_words

_Number = TypeVar("_Number", bound=np.generic)

CELLS_AT_ONCE = 200_000
_MAX_WAITING = 2_000_000
_COPIED = 0.1
"""Least probability of a word, given one that is spelled alike, as names and numbers are."""
_ALIKE = 1e-2
"""The same where both begin alike, as words of one origin do."""
_NUM_LETTERS = 4


@dataclass(frozen=True)
class Alike:
    """Words of a block that are spelled alike, and how likely they are given each other for that.

    Attributes:
        rows: The pair of sentences that each two words stand in.
        words: The word's position.
        given: The position of the other side's word.
        probabilities: How likely they are at least.
    """

    rows: Numbers
    words: Numbers
    given: Numbers
    probabilities: Floats

    @classmethod
    def find(cls, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> Self:
        """Returns the words of each target that are spelled like one of its source."""
        found: dict[tuple[int, int, int], float] = {}
        for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
            beginnings = [*map(_begin, source)], [*map(_begin, target)]
            for names, probability in ((beginnings, _ALIKE), ((source, target), _COPIED)):
                for source_index, target_index in _find_equal(*names):
                    found[row, target_index, source_index] = probability
        rows, words, given = np.array(list(found), np.int64).reshape(-1, 3).T
        return cls(rows, words, given, np.array(list(found.values())))

    def turn(self) -> "Alike":
        """Returns the same with the sides swapped."""
        return Alike(self.rows, self.given, self.words, self.probabilities)

    def raise_to(self, emissions: Floats) -> None:
        """Raises probabilities of words given others, [batch, words, given], in place."""
        at = self.rows, self.words, self.given
        emissions[at] = np.maximum(emissions[at], self.probabilities)


@dataclass(frozen=True)
class Block:
    """Pairs of alike lengths.

    Attributes:
        indices: Which pairs they are.
        cells: Indices of `WordPairs`, [batch, target, source].
        sources: Words of each source, [batch, source].
        targets: Words of each target, [batch, target].
        source_lengths: How many, [batch].
        target_lengths: Likewise.
        alike: Words that are spelled alike; None where that isn't looked at.
    """

    indices: Sequence[int]
    cells: NDArray[np.int32]
    sources: Numbers
    targets: Numbers
    source_lengths: Numbers
    target_lengths: Numbers
    alike: Alike | None = None

    def turn(self) -> "Block":
        """Returns the block with its sides swapped."""
        return Block(
            self.indices,
            turn(self.cells),
            self.targets,
            self.sources,
            self.target_lengths,
            self.source_lengths,
            None if self.alike is None else self.alike.turn(),
        )

    def finish(self, emissions: Floats) -> Floats:
        """Returns words' probabilities given others, with those spelled alike, zeros at padding."""
        if self.alike is not None:
            self.alike.raise_to(emissions)
        is_source = np.arange(emissions.shape[2]) < self.source_lengths[:, None]
        return emissions * is_source[:, None]


def turn(block: NDArray[_Number]) -> NDArray[_Number]:
    """Returns a block's words with the sides swapped."""
    return block.transpose(0, 2, 1)


def number_pairs(
    pairs: Sequence[tuple[Numbers, Numbers]],
    num_targets: int,
    *,
    max_words: int,
    find_alike: Callable[[Sequence[int]], Alike] | None = None,
) -> tuple[WordPairs, list[Block]]:
    """Returns the words that stand in pairs together, and all pairs in blocks.

    Args:
        pairs: The words of each pair by number.
        num_targets: How many target words have a number.
        max_words: Words of a side, at most; longer pairs and those with an empty side are left out.
        find_alike: Returns the words that are spelled alike of the pairs with these indices.
    """
    lengths = [(len(source), len(target)) for source, target in pairs]
    padded = [
        (
            indices,
            pad_words([pairs[index][0] for index in indices]),
            pad_words([pairs[index][1] for index in indices]),
        )
        for indices in cut_blocks(lengths, max_words=max_words, max_cells=CELLS_AT_ONCE)
    ]
    found = _collect_pairs(
        (make_keys(sources, targets, num_targets) for _, (sources, _), (targets, _) in padded),
        num_targets,
    )
    return found, [
        Block(
            indices,
            found.find(sources, targets),
            sources,
            targets,
            source_lengths,
            target_lengths,
            None if find_alike is None else find_alike(indices),
        )
        for indices, (sources, source_lengths), (targets, target_lengths) in padded
    ]


def _collect_pairs(blocks: Iterable[Numbers], num_targets: int) -> WordPairs:
    """Returns the pairs of words of all blocks, given their keys, with little beside them."""
    keys, waiting, num_waiting = np.array([-1]), [np.array([-1])], 0
    for block in blocks:
        waiting.append(np.unique(block))
        num_waiting += len(waiting[-1])
        if num_waiting > max(len(keys), _MAX_WAITING):
            keys = np.unique(np.concatenate([keys, *waiting]))
            waiting, num_waiting = [], 0
    return WordPairs(np.unique(np.concatenate([keys, *waiting])), num_targets)


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


@lru_cache(maxsize=1 << 14)
def _begin(word: str) -> str:
    """Returns the letters that words of one origin share as a rule; none of a shorter word."""
    return word[:_NUM_LETTERS] if word[:_NUM_LETTERS].isalpha() and len(word) > 3 else ""


def _find_equal(sources: Sequence[str], targets: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yields each source and each target that are the same, except empty ones."""
    both = set(sources).intersection(targets) - {""}
    places: dict[str, list[int]] = {name: [] for name in both}
    if places:
        for source, name in enumerate(sources):
            if name in places:
                places[name].append(source)
        for target, name in enumerate(targets):
            for source in places.get(name, ()):
                yield source, target
