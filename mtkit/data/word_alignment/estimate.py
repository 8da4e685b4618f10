"""Learns an aligner's probabilities from a sample of pairs."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from mtkit.data.word_alignment.aligner import Direction, WordAligner
from mtkit.data.word_alignment.alignment_learner import AlignmentLearner, PriorCounts, begin_jumps
from mtkit.data.word_alignment.pair_blocks import number_pairs
from mtkit.data.word_alignment.word_table import (
    NO_PAIR,
    Floats,
    Numbers,
    WordNumbers,
    WordPairs,
)

MAX_CELLS = 64_000_000
"""Source words times target words, summed over the pairs of the sample; limits memory."""
_MAX_WORDS = 100
"""Pairs with more words on a side aren't learned from."""
_NUM_WORD_ROUNDS = 5
_NUM_ORDER_ROUNDS = 4
_MIN_PROBABILITY = 1e-3
"""Words that are less likely given each other, from either side, are dropped at the end."""
_NONE = 0.1
"""Probability that a word has no counterpart."""
_UNKNOWN = 1e-7
"""Probability of an unknown word among words without a counterpart."""
_WORD_PRIOR = 0.5
"""Added to words' counts, so that an unknown word isn't impossible."""

Pair = tuple[Sequence[str], Sequence[str]]
Item = TypeVar("Item")


def train_aligner(
    pairs: Iterable[Item], split: Callable[[Item], Pair], *, max_cells: int = MAX_CELLS
) -> WordAligner:
    """Returns an aligner that has learned from pairs; deterministic.

    Pairs are read one by one and needn't fit in memory. Above `max_cells` source words times target
    words, only every second, fourth etc. pair is learned from; `split` returns the words of these.
    """
    sample = _Sample(max_cells)
    for number, pair in enumerate(pairs):
        if sample.wants(number):
            sample.add(*split(pair))
    num_sources, num_targets = max(len(sample.sources), 1), max(len(sample.targets), 1)
    words, blocks = number_pairs(sample.pairs, num_targets, max_words=_MAX_WORDS)
    learner = AlignmentLearner(
        blocks,
        words,
        _empty_prior(words, num_targets, num_sources),
        _empty_prior(words, num_sources, num_targets),
        none=_NONE,
    )
    learner.learn(by_words=_NUM_WORD_ROUNDS, by_order=_NUM_ORDER_ROUNDS)
    forward, backward = (
        Direction(
            _divide(side.by_pair, side.linked, given),
            np.append(side.by_none / side.by_none.sum(), _UNKNOWN),
            side.jumps / side.jumps.sum(),
            _count_words([pair[number] for pair in sample.pairs], len(side.by_none)),
            np.append(side.linked, 0.0),
        )
        for side, given, number in (
            (learner.forward, words.sources, 1),
            (learner.backward, words.targets, 0),
        )
    )
    is_kept = np.maximum(forward.by_pair, backward.by_pair) >= _MIN_PROBABILITY
    is_kept[NO_PAIR] = True
    return WordAligner(
        sample.sources,
        sample.targets,
        words.keep(is_kept),
        forward.keep(is_kept),
        backward.keep(is_kept),
        none=_NONE,
    )


class _Sample:
    """Pairs evenly spread over all pairs, as many as memory allows, as numbers of words."""

    def __init__(self, max_cells: int) -> None:
        self.sources, self.targets = WordNumbers(), WordNumbers()
        self.pairs: list[tuple[Numbers, Numbers]] = []
        self._max_cells = max_cells
        self._num_cells = 0
        self._stride = 1

    def wants(self, number: int) -> bool:
        """Checks whether the sample takes the pair with this number."""
        return number % self._stride == 0

    def add(self, source: Sequence[str], target: Sequence[str]) -> None:
        """Adds a pair, unless it is empty or too long."""
        if not (0 < len(source) <= _MAX_WORDS and 0 < len(target) <= _MAX_WORDS):
            return
        self.pairs.append((self.sources.add(source), self.targets.add(target)))
        self._num_cells += len(source) * len(target)
        while self._num_cells > self._max_cells and len(self.pairs) > 1:
            self.pairs = self.pairs[::2]
            self._stride *= 2
            self._num_cells = sum(len(source) * len(target) for source, target in self.pairs)


def _empty_prior(words: WordPairs, num_words: int, num_given: int) -> PriorCounts:
    return PriorCounts(
        np.zeros(len(words.keys)),
        np.zeros(num_given),
        np.zeros(num_words),
        num_words,
        begin_jumps(),
    )


def _divide(counts: Floats, by_given: Floats, given: Numbers) -> Floats:
    totals = by_given[given]
    return np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0.0)


def _count_words(sentences: Sequence[Numbers], num_words: int) -> Floats:
    """Returns the probability of each word, and of an unknown one, not seen so far."""
    words = np.concatenate(sentences) if sentences else np.zeros(0, np.int64)
    counts = np.bincount(words, minlength=num_words).astype(np.float64) + _WORD_PRIOR
    found: Floats = np.append(counts, _WORD_PRIOR) / (counts.sum() + _WORD_PRIOR)
    return found
