"""Posterior probabilities of word alignments: IBM model 1, and a hidden Markov model.

In the latter (Vogel et al. 1996) the source word of a target word depends on its distance from the
previous one; a word aligned to none keeps the position (Och and Ney 2003, section 2.1). Sentences
of a block are padded: emissions are 0 for padding's source words, and don't matter for its target
words.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MAX_JUMP = 7
"""Longer jumps share one probability."""
_FLOOR = 1e-300


@dataclass(frozen=True)
class Emissions:
    """The probabilities of a block's target words.

    Attributes:
        by_source: p(target word | source word), [batch, target, source].
        by_none: p(target word | no source word), [batch, target].
        source_lengths: [batch].
        target_lengths: [batch].
    """

    by_source: Floats
    by_none: Floats
    source_lengths: NDArray[np.int64]
    target_lengths: NDArray[np.int64]


@dataclass(frozen=True)
class Posteriors:
    """How likely a target word is aligned to each source word.

    Attributes:
        by_source: [batch, target, source].
        by_none: [batch, target].
        jumps: Expected count of each jump, by `MAX_JUMP` + distance; zeros for model 1.
        chances: How many words each jump could have gone to, summed over all jumps; likewise.
    """

    by_source: Floats
    by_none: Floats
    jumps: Floats
    chances: Floats


def find_by_words(emissions: Emissions, none: float) -> Posteriors:
    """Returns the posteriors of IBM model 1; `none` is the probability of no source word."""
    sizes = emissions.source_lengths[:, None, None]
    weighted = emissions.by_source * ((1.0 - none) / sizes)
    of_none = emissions.by_none * none
    total = weighted.sum(axis=2) + of_none + _FLOOR
    is_target = _mask(emissions.target_lengths, of_none.shape[1])
    weighted *= (is_target / total)[:, :, None]
    no_jumps = np.zeros(2 * MAX_JUMP + 1)
    return Posteriors(weighted, of_none / total * is_target, no_jumps, no_jumps)


def find_by_order(
    emissions: Emissions, jumps: Floats, none: float, *, counts_jumps: bool = True
) -> Posteriors:
    """Returns the posteriors of the hidden Markov model, by forward and backward passes.

    `jumps` are weights by `MAX_JUMP` + distance; `none` is the probability of no source word. If
    jumps aren't counted, the result's `jumps` and `chances` are zeros.
    """
    by_source, by_none = emissions.by_source, emissions.by_none
    batch, num_targets, num_sources = by_source.shape
    distances = np.arange(num_sources) - np.arange(num_sources)[:, None]
    kinds = np.clip(distances, -MAX_JUMP, MAX_JUMP) + MAX_JUMP
    weights = jumps[kinds]
    is_source = _mask(emissions.source_lengths, num_sources)
    # A jump ends within the sentence.
    totals = is_source @ weights.T + _FLOOR
    none_emissions = none * by_none
    forward = np.empty_like(by_source)
    moved = np.empty_like(by_source)
    state = is_source / emissions.source_lengths[:, None]
    for target in range(num_targets):
        if target:
            arrived = (state / totals) @ weights
            stayed = state * none_emissions[:, target, None]
        else:
            arrived, stayed = state, state * none_emissions[:, target, None]
        moved[:, target] = (1.0 - none) * arrived * by_source[:, target]
        state = moved[:, target] + stayed
        scale = state.sum(axis=1, keepdims=True) + _FLOOR
        moved[:, target] /= scale
        state = state / scale
        forward[:, target] = state
    posterior = np.zeros_like(by_source)
    of_none = np.zeros_like(by_none)
    jump_counts = np.zeros((num_sources, num_sources))
    departures = np.zeros((batch, num_sources))
    later = np.zeros((batch, num_sources))
    for target in reversed(range(num_targets)):
        is_last = (emissions.target_lengths == target + 1)[:, None]
        is_inside = (emissions.target_lengths > target)[:, None]
        later = np.where(is_last, is_source, later)
        found = moved[:, target] * later
        stayed = (forward[:, target] - moved[:, target]) * later
        total = found.sum(axis=1, keepdims=True) + stayed.sum(axis=1, keepdims=True) + _FLOOR
        posterior[:, target] = found / total * is_inside
        of_none[:, target] = (stayed.sum(axis=1) / total[:, 0]) * is_inside[:, 0]
        if not target:
            break
        ahead = (1.0 - none) * by_source[:, target] * later
        before = forward[:, target - 1]
        jumped = (ahead @ weights.T) / totals
        kept = jumped + none_emissions[:, target, None] * later
        if counts_jumps:
            # Product of both passes, so that the counts have probability 1.
            norm = (before * kept).sum(axis=1, keepdims=True) + _FLOOR
            shares = before * (is_inside / norm)
            jump_counts += (shares / totals).T @ ahead
            departures += shares * jumped
        later = np.where(is_inside, kept / (kept.max(axis=1, keepdims=True) + _FLOOR), later)
    # A departure could have gone to each word of its own sentence.
    counts, chances = (
        np.bincount(kinds.ravel(), each.ravel(), 2 * MAX_JUMP + 1).astype(np.float64)
        for each in (jump_counts * weights, departures.T @ is_source)
    )
    return Posteriors(posterior, of_none, counts, chances)


def _mask(lengths: NDArray[np.int64], longest: int) -> Floats:
    """Returns 1 for each word and 0 for padding, [batch, longest]."""
    return (np.arange(longest) < lengths[:, None]).astype(np.float64)
