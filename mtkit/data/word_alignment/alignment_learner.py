"""Counts of links, and the rounds that improve them.

IBM model 1 (Brown et al. 1993, section 4.2), then a hidden Markov model, in both directions at once
and trained to agree: the product of both directions' posteriors is counted (Liang et al. 2006,
section 3.2). Probabilities are those of collapsed variational inference (CVB0: Asuncion et al.
2009, section 2.3): a word is aligned by the counts of all other words, without its own, and a
Dirichlet prior. So a rare word can't attract what nothing else supports, as it does with maximum
likelihood.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtkit.data.word_alignment.hidden_markov import (
    MAX_JUMP,
    Emissions,
    Posteriors,
    find_by_order,
    find_by_words,
)
from mtkit.data.word_alignment.pair_blocks import PairBlock, turn
from mtkit.data.word_alignment.word_table import Floats, Numbers, WordPairs

_ALPHA = 5.0
"""Weight of the prior, in which all words are equally likely, in links of each word."""
_NONE_PRIOR = 1e-3
"""Added to the counts of words without a counterpart, so that none is 0."""
_JUMP_PRIOR = 200.0
"""Weight of the initial jump weights, in chances of each jump."""
_KEPT = 0.5
"""Share of the last round's expectations in this round's; without it, they oscillate."""


@dataclass(frozen=True)
class PriorCounts:
    """Expected counts of one direction that are known before pairs are seen.

    Attributes:
        by_pair: Links of words that occur in pairs together, [pairs].
        by_given: All links of each given word, [given].
        by_none: Each word without a counterpart, [words].
        num_words: Words that can be linked to given ones, even if they occur in no pair here.
        jumps: Weight of each jump, the maximum 1.
    """

    by_pair: Floats
    by_given: Floats
    by_none: Floats
    num_words: int
    jumps: Floats


@dataclass(frozen=True)
class _BlockCounts:
    """What a block's words added to the counts in the last round: links [batch, target, source]."""

    agreed: NDArray[np.float32]
    target_none: Floats
    source_none: Floats


class _Side:
    """The counts of one direction's words, given the other side's."""

    def __init__(self, known: PriorCounts, given: Numbers) -> None:
        self._known, self._given = known, given
        self.jumps = known.jumps
        self._jump_counts = np.zeros((2, len(known.jumps)))
        self.count(np.zeros(len(known.by_pair)), np.zeros(len(known.by_none)), by_order=False)

    def count(self, links: Floats, none: Floats, *, by_order: bool) -> None:
        """Adds the expectations of a round, and begins the next."""
        # Padding's are 0.
        self.by_pair = self._known.by_pair + links
        self.linked: Floats = np.bincount(self._given, links, len(self._known.by_given)).astype(
            np.float64
        )
        self.by_given = self._known.by_given + self.linked
        self.by_none = self._known.by_none + none + _NONE_PRIOR
        self._total_none = self.by_none.sum()
        if by_order:
            expected, chances = self._jump_counts
            # A long jump has many words to go to.
            jumps = (expected + _JUMP_PRIOR * self._known.jumps) / (chances + _JUMP_PRIOR)
            self.jumps = jumps / jumps.sum()
        self._jump_counts = np.zeros_like(self._jump_counts)

    def expect(
        self,
        block: PairBlock,
        own_links: Floats | NDArray[np.float32] | float,
        own_none: Floats | float,
        *,
        none: float,
        by_order: bool,
    ) -> Posteriors:
        """Returns the posteriors of a block's target words; counts its jumps."""
        others = np.maximum(self.by_pair[block.cells] - own_links, 0.0)
        totals = np.maximum(self.by_given[block.sources][:, None] - own_links, 0.0)
        # Padding doesn't matter; its number selects the last word.
        others_none = np.maximum(self.by_none[block.targets] - own_none, _NONE_PRIOR)
        emissions = Emissions(
            block.finish((others + _ALPHA / self._known.num_words) / (totals + _ALPHA)),
            others_none / (self._total_none - own_none),
            block.source_lengths,
            block.target_lengths,
        )
        if not by_order:
            return find_by_words(emissions, none)
        found = find_by_order(emissions, self.jumps, none)
        self._jump_counts += np.stack((found.jumps, found.chances))
        return found


class AlignmentLearner:
    """Expected links of all pairs, and the rounds that improve them.

    `forward` is about target words given source words, `backward` the reverse; `none` is the
    probability that a word has no counterpart.
    """

    def __init__(
        self,
        blocks: Sequence[PairBlock],
        pairs: WordPairs,
        forward: PriorCounts,
        backward: PriorCounts,
        *,
        none: float,
    ) -> None:
        self.forward, self.backward = _Side(forward, pairs.sources), _Side(backward, pairs.targets)
        self._blocks, self._num_pairs, self._none = blocks, len(pairs.keys), none
        self._own: list[_BlockCounts | None] = [None] * len(blocks)

    def learn(self, *, by_words: int, by_order: int) -> None:
        """Runs rounds of model 1, and then of the hidden Markov model, over all blocks."""
        for number in range(by_words + by_order):
            self._learn(by_order=number >= by_words)

    def expect(self, block: int, *, by_order: bool = True) -> tuple[Posteriors, Posteriors]:
        """Returns the posteriors of target words, and of source words."""
        own, words = self._own[block], self._blocks[block]
        return (
            self.forward.expect(
                words,
                0.0 if own is None else own.agreed,
                0.0 if own is None else own.target_none,
                none=self._none,
                by_order=by_order,
            ),
            self.backward.expect(
                words.turn(),
                0.0 if own is None else turn(own.agreed),
                0.0 if own is None else own.source_none,
                none=self._none,
                by_order=by_order,
            ),
        )

    def _learn(self, *, by_order: bool) -> None:
        """Runs one round over all blocks: expectations, then their counts."""
        links = np.zeros(self._num_pairs)
        none = [np.zeros(len(side.by_none)) for side in (self.forward, self.backward)]
        for number, block in enumerate(self._blocks):
            own = self._mix(number, *self.expect(number, by_order=by_order))
            self._own[number] = own
            links += np.bincount(block.cells.ravel(), own.agreed.ravel(), len(links))
            for side, words, found in (
                (0, block.targets, own.target_none),
                (1, block.sources, own.source_none),
            ):
                # Padding's are 0.
                numbers = np.maximum(words, 0).ravel()
                none[side] += np.bincount(numbers, found.ravel(), len(none[side]))
        self.forward.count(links, none[0], by_order=by_order)
        self.backward.count(links, none[1], by_order=by_order)

    def _mix(self, number: int, forward: Posteriors, backward: Posteriors) -> _BlockCounts:
        """Returns a block's expectations, mixed with the last round's."""
        # Only what both sides agree on is counted.
        agreed = forward.by_source * turn(backward.by_source)
        target_none, source_none = forward.by_none, backward.by_none
        own = self._own[number]
        if own is not None:
            agreed += _KEPT * (own.agreed - agreed)
            target_none = target_none + _KEPT * (own.target_none - target_none)
            source_none = source_none + _KEPT * (own.source_none - source_none)
        return _BlockCounts(agreed.astype(np.float32), target_none, source_none)


def begin_jumps() -> Floats:
    """Returns the initial weights of jumps: short ones forward are the most likely."""
    distances = np.abs(np.arange(-MAX_JUMP, MAX_JUMP + 1) - 1)
    weights: Floats = np.exp(-distances / 2.0) + 1e-3
    highest: Floats = weights / weights.max()
    return highest
