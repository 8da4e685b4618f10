"""An aligner's probabilities, by expectation maximisation over a sample of pairs.

IBM model 1 (Brown et al. 1993, section 4.2), then a hidden Markov model, each from either side at
once, trained to agree: what is counted is the product of both sides' posteriors (Liang et al. 2006,
section 3.2).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtkit.data.word_alignment.aligner import Direction, WordAligner, cut_blocks
from mtkit.data.word_alignment.hidden_markov import (
    MAX_JUMP,
    Emissions,
    Posteriors,
    find_by_order,
    find_by_words,
)
from mtkit.data.word_alignment.word_table import (
    NO_PAIR,
    Floats,
    Numbers,
    WordNumbers,
    WordPairs,
    make_keys,
    pad_words,
)

_MAX_CELLS = 16_000_000
"""Source words times target words, summed over the pairs that are learned from: bounds memory."""
_MAX_WORDS = 100
"""Words of a side, from which on a pair isn't learned from."""
_CELLS_AT_ONCE = 200_000
_NUM_WORD_ROUNDS = 5
_NUM_ORDER_ROUNDS = 4
_MIN_PROBABILITY = 1e-3
"""Words that are less likely given each other, from either side, are forgotten in the end."""
_NONE = 0.1
"""Probability that a word has no counterpart."""
_UNKNOWN = 1e-7
"""Probability of an unknown word among those that have no counterpart."""
_NONE_PRIOR = 1e-3
_WORD_PRIOR = 0.5
_JUMP_PRIOR = 1.0
"""What is added to expected counts, so that none of these probabilities is 0."""

Pair = tuple[Sequence[str], Sequence[str]]
"""The words of a source and of a target."""


def train_aligner(pairs: Iterable[Pair], *, max_cells: int = _MAX_CELLS) -> WordAligner:
    """Returns an aligner that has learned from pairs; it is the same for the same pairs.

    Args:
        pairs: The words of each pair; one after the other, so that they needn't fit in memory.
        max_cells: Bound on what is held in memory, in source words times target words. Of more
            pairs than it lets, every second, fourth or so on is learned from.
    """
    sample = _Sample(max_cells)
    for source, target in pairs:
        sample.add(source, target)
    learner = _Learner(sample)
    for _ in range(_NUM_WORD_ROUNDS):
        learner.learn(by_order=False)
    for _ in range(_NUM_ORDER_ROUNDS):
        learner.learn(by_order=True)
    forward, backward = learner.directions
    is_kept = np.maximum(forward.by_pair, backward.by_pair) >= _MIN_PROBABILITY
    is_kept[NO_PAIR] = True
    return WordAligner(
        sample.sources,
        sample.targets,
        learner.pairs.keep(is_kept),
        _round(forward, is_kept),
        _round(backward, is_kept),
        none=_NONE,
    )


def _round(direction: Direction, is_kept: NDArray[np.bool_]) -> Direction:
    """Returns a direction with fewer pairs of words, as exact as a file keeps it."""
    arrays = {**vars(direction), "by_pair": direction.by_pair[is_kept]}
    return Direction(
        **{name: each.astype(np.float32).astype(np.float64) for name, each in arrays.items()}
    )


class _Sample:
    """Pairs evenly spread over all that come, as many as memory may hold.

    Attributes:
        sources: Numbers of source words.
        targets: Numbers of target words.
        pairs: The words of each pair by number.
    """

    def __init__(self, max_cells: int) -> None:
        self.sources, self.targets = WordNumbers(), WordNumbers()
        self.pairs: list[tuple[Numbers, Numbers]] = []
        self._max_cells = max_cells
        self._num_cells = self._num_seen = 0
        self._stride = 1

    def add(self, source: Sequence[str], target: Sequence[str]) -> None:
        """Takes a pair in, unless the sample skips it."""
        if not (0 < len(source) <= _MAX_WORDS and 0 < len(target) <= _MAX_WORDS):
            return
        self._num_seen += 1
        if (self._num_seen - 1) % self._stride:
            return
        self.pairs.append((self.sources.add(source), self.targets.add(target)))
        self._num_cells += len(source) * len(target)
        while self._num_cells > self._max_cells and len(self.pairs) > 1:
            self.pairs = self.pairs[::2]
            self._stride *= 2
            self._num_cells = sum(len(source) * len(target) for source, target in self.pairs)


@dataclass(frozen=True)
class _Block:
    """Pairs of alike lengths.

    Attributes:
        cells: Indices of `WordPairs`, [batch, target, source].
        sources: Words of each source, [batch, source].
        targets: Words of each target, [batch, target].
        source_lengths: How many, [batch].
        target_lengths: Likewise.
    """

    cells: NDArray[np.int32]
    sources: Numbers
    targets: Numbers
    source_lengths: Numbers
    target_lengths: Numbers

    def turn(self) -> "_Block":
        """Returns the block with its sides swapped."""
        return _Block(
            self.cells.transpose(0, 2, 1),
            self.targets,
            self.sources,
            self.target_lengths,
            self.source_lengths,
        )


class _Learner:
    """Probabilities, and the rounds that better them."""

    def __init__(self, sample: _Sample) -> None:
        self._num_words = max(len(sample.sources), 1), max(len(sample.targets), 1)
        padded = list(_pad_blocks(sample.pairs))
        keys = np.array([-1])
        for (sources, _), (targets, _) in padded:
            keys = np.union1d(keys, make_keys(sources, targets, self._num_words[1]))
        self.pairs = WordPairs(keys, self._num_words[1])
        self._blocks = [
            _Block(
                self.pairs.find(source[0], target[0]), source[0], target[0], source[1], target[1]
            )
            for source, target in padded
        ]
        # Short jumps forward first, so that the first round of order has something to go by.
        jumps = np.exp(-np.abs(np.arange(-MAX_JUMP, MAX_JUMP + 1) - 1) / 2.0) + 1e-3
        by_pair = np.ones(len(keys))
        by_pair[NO_PAIR] = 0.0
        forward, backward = (
            Direction(
                by_pair / num_words,
                np.full(num_words + 1, 1.0 / num_words),
                jumps,
                _count_words([pair[side] for pair in sample.pairs], num_words),
                np.zeros(self._num_words[1 - side] + 1),
            )
            for side, num_words in ((1, self._num_words[1]), (0, self._num_words[0]))
        )
        self.directions = forward, backward

    def learn(self, *, by_order: bool) -> None:
        """Makes one round over all blocks: expectations, then the probabilities they come to."""
        forward, backward = self.directions
        num_pairs = len(self.pairs.keys)
        of_targets = _Counts.zeros(num_pairs, self._num_words[1])
        of_sources = _Counts.zeros(num_pairs, self._num_words[0])
        for block in self._blocks:
            from_sources = _expect(forward, block, by_order=by_order)
            from_targets = _expect(backward, block.turn(), by_order=by_order)
            # Only what both sides agree on is counted.
            agreed = from_sources.by_source * from_targets.by_source.transpose(0, 2, 1)
            counted = np.bincount(block.cells.ravel(), agreed.ravel(), num_pairs).astype(np.float64)
            of_targets.add(counted, block.targets, from_sources)
            of_sources.add(counted, block.sources, from_targets)
        self.directions = (
            of_targets.divide(self.pairs.sources, forward, by_order=by_order),
            of_sources.divide(self.pairs.targets, backward, by_order=by_order),
        )


def _count_words(sentences: Sequence[Numbers], num_words: int) -> Floats:
    """Returns the probability of each word, and of an unknown one, which stood nowhere yet."""
    words = np.concatenate(sentences) if sentences else np.zeros(0, np.int64)
    counts = np.bincount(words, minlength=num_words).astype(np.float64) + _WORD_PRIOR
    found: Floats = np.append(counts, _WORD_PRIOR) / (counts.sum() + _WORD_PRIOR)
    return found


def _pad_blocks(
    pairs: Sequence[tuple[Numbers, Numbers]],
) -> Iterator[tuple[tuple[Numbers, Numbers], tuple[Numbers, Numbers]]]:
    """Yields sources and targets of each block, padded, each with their lengths."""
    lengths = [(len(source), len(target)) for source, target in pairs]
    for block in cut_blocks(lengths, max_words=_MAX_WORDS, max_cells=_CELLS_AT_ONCE):
        yield (
            pad_words([pairs[index][0] for index in block]),
            pad_words([pairs[index][1] for index in block]),
        )


def _expect(direction: Direction, block: _Block, *, by_order: bool) -> Posteriors:
    """Returns what each target word of a block is likely aligned to."""
    emissions = Emissions(
        direction.by_pair[block.cells],
        # Padding's doesn't matter: its number is the last word's.
        direction.by_none[block.targets],
        block.source_lengths,
        block.target_lengths,
    )
    if by_order:
        return find_by_order(emissions, direction.jumps, _NONE)
    return find_by_words(emissions, _NONE)


@dataclass
class _Counts:
    """Expected counts of one direction.

    Attributes:
        by_pair: Of each pair of words, [pairs].
        by_none: Of each word without a counterpart, [words].
        jumps: Of each jump.
        chances: Of the words that each jump could have gone to.
    """

    by_pair: Floats
    by_none: Floats
    jumps: Floats
    chances: Floats

    @classmethod
    def zeros(cls, num_pairs: int, num_words: int) -> "_Counts":
        """Returns counts of nothing."""
        jumps, chances = np.zeros((2, 2 * MAX_JUMP + 1))
        return cls(np.zeros(num_pairs), np.zeros(num_words), jumps, chances)

    def add(self, by_pair: Floats, words: Numbers, found: Posteriors) -> None:
        """Adds the expectations of a block whose words these are."""
        self.by_pair += by_pair
        # Padding's are 0.
        numbers = np.maximum(words, 0).ravel()
        self.by_none += np.bincount(numbers, found.by_none.ravel(), len(self.by_none))
        self.jumps += found.jumps
        self.chances += found.chances

    def divide(self, given: Numbers, before: Direction, *, by_order: bool) -> Direction:
        """Returns the probabilities that counts come to.

        Args:
            given: The word that each pair's probability is given, [pairs].
            before: The probabilities of the round before.
            by_order: Whether jumps were counted.
        """
        counts = self.by_pair.copy()
        counts[NO_PAIR] = 0.0
        by_given = np.bincount(given, counts, len(before.counts) - 1)
        totals = by_given[given]
        none = self.by_none + _NONE_PRIOR
        # A long jump has many words to go to.
        jumps = (self.jumps + _JUMP_PRIOR) / (self.chances + _JUMP_PRIOR)
        return Direction(
            np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0.0),
            np.append(none / none.sum(), _UNKNOWN),
            jumps / jumps.sum() if by_order else before.jumps,
            before.by_itself,
            np.append(by_given, 0.0),
        )
