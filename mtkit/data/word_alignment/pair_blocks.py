"""Pairs of similar length, padded so that they are aligned together."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mtkit.data.word_alignment.word_table import Floats, Numbers, WordPairs, make_keys, pad_words

_Number = TypeVar("_Number", bound=np.generic)

CELLS_AT_ONCE = 200_000
_MAX_PENDING = 2_000_000
_COPIED = 0.1
"""Minimum probability of a word, given one of the same spelling, such as a name or number."""
_ALIKE = 1e-2
"""Minimum probability if both begin alike, as related words do."""
_NUM_LETTERS = 4


@dataclass(frozen=True)
class SimilarWords:
    """Words of a block with similar spelling, and minimum probabilities given each other.

    Attributes:
        rows: Index of the pair of sentences.
        words: Position of the word.
        given: Position of the other side's word.
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
            beginnings = [*map(_find_prefix, source)], [*map(_find_prefix, target)]
            for names, probability in ((beginnings, _ALIKE), ((source, target), _COPIED)):
                for source_index, target_index in _find_equal(*names):
                    found[row, target_index, source_index] = probability
        rows, words, given = np.array(list(found), np.int64).reshape(-1, 3).T
        return cls(rows, words, given, np.array(list(found.values())))

    def turn(self) -> "SimilarWords":
        """Returns the same with the sides swapped."""
        return SimilarWords(self.rows, self.given, self.words, self.probabilities)

    def raise_to(self, emissions: Floats) -> None:
        """Raises probabilities of words given others, [batch, words, given], in place."""
        at = self.rows, self.words, self.given
        emissions[at] = np.maximum(emissions[at], self.probabilities)


@dataclass(frozen=True)
class PairBlock:
    """Pairs of similar length.

    Attributes:
        indices: Which pairs they are.
        cells: Indices of `WordPairs`, [batch, target, source].
        sources: [batch, source].
        targets: [batch, target].
        source_lengths: [batch].
        target_lengths: [batch].
        alike: None if spelling doesn't count.
    """

    indices: Sequence[int]
    cells: NDArray[np.int32]
    sources: Numbers
    targets: Numbers
    source_lengths: Numbers
    target_lengths: Numbers
    alike: SimilarWords | None = None

    def turn(self) -> "PairBlock":
        """Returns the block with its sides swapped."""
        return PairBlock(
            self.indices,
            turn(self.cells),
            self.targets,
            self.sources,
            self.target_lengths,
            self.source_lengths,
            None if self.alike is None else self.alike.turn(),
        )

    def finish(self, emissions: Floats) -> Floats:
        """Returns emissions raised for similar spelling, with zeros at padding."""
        if self.alike is not None:
            self.alike.raise_to(emissions)
        is_source = np.arange(emissions.shape[2]) < self.source_lengths[:, None]
        return emissions * is_source[:, None]


def turn(block: NDArray[_Number]) -> NDArray[_Number]:
    """Returns a block's cells with the sides swapped."""
    return block.transpose(0, 2, 1)


def number_pairs(
    pairs: Sequence[tuple[Numbers, Numbers]],
    num_targets: int,
    *,
    max_words: int,
    find_alike: Callable[[Sequence[int]], SimilarWords] | None = None,
) -> tuple[WordPairs, list[PairBlock]]:
    """Returns the word pairs that co-occur, and the sentence pairs in blocks.

    Skips pairs with an empty side or one longer than `max_words`. `find_alike` takes indices of
    pairs.
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
        PairBlock(
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
    """Returns the pairs of words of all blocks, given their keys, merged as they arrive."""
    keys, pending, num_pending = np.array([-1]), [np.array([-1])], 0
    for block in blocks:
        pending.append(np.unique(block))
        num_pending += len(pending[-1])
        if num_pending > max(len(keys), _MAX_PENDING):
            keys = np.unique(np.concatenate([keys, *pending]))
            pending, num_pending = [], 0
    return WordPairs(np.unique(np.concatenate([keys, *pending])), num_targets)


def cut_blocks(
    lengths: Sequence[tuple[int, int]], *, max_words: int, max_cells: int
) -> Iterator[list[int]]:
    """Yields the indices of pairs to align together, of similar length for little padding.

    A pair is skipped if a side is empty or longer than `max_words`. A block has at most `max_cells`
    source words times target words, padded, unless a single pair has more.
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
def _find_prefix(word: str) -> str:
    """Returns the letters that related words usually share; none for a shorter word."""
    return word[:_NUM_LETTERS] if word[:_NUM_LETTERS].isalpha() and len(word) > 3 else ""


def _find_equal(sources: Sequence[str], targets: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yields the indices of each equal source and target, except empty ones."""
    both = set(sources).intersection(targets) - {""}
    places: dict[str, list[int]] = {name: [] for name in both}
    if places:
        for source, name in enumerate(sources):
            if name in places:
                places[name].append(source)
        for target, name in enumerate(targets):
            for source in places.get(name, ()):
                yield source, target
