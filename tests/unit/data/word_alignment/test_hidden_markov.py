"""Posteriors beside the sum over all alignments, one by one."""

from itertools import pairwise, product

import numpy as np
import pytest

from mtkit.data.word_alignment.hidden_markov import (
    MAX_JUMP,
    Emissions,
    find_by_order,
    find_by_words,
)

NONE = 0.2


@pytest.fixture
def emissions() -> Emissions:
    generator = np.random.default_rng(5)
    by_source = generator.random((2, 4, 3))
    # The second pair has two source words and three target words.
    by_source[1, :, 2] = 0.0
    lengths = np.array([3, 2]), np.array([4, 3])
    return Emissions(by_source, generator.random((2, 4)), *lengths)


def count_by_hand(emissions: Emissions, pair: int, jumps) -> tuple[np.ndarray, ...]:
    """Returns what posteriors are by definition: means over all ways to align a pair."""
    num_sources = int(emissions.source_lengths[pair])
    num_targets = int(emissions.target_lengths[pair])
    by_source, by_none = np.zeros((num_targets, num_sources)), np.zeros(num_targets)
    counts, chances = np.zeros((2, 2 * MAX_JUMP + 1))
    total = 0.0
    states = list(product(range(num_sources), (False, True)))
    for way in product(states, repeat=num_targets):
        probability = 1.0 / num_sources
        for target, (source, is_none) in enumerate(way):
            probability *= (
                NONE * emissions.by_none[pair, target]
                if is_none
                else (1 - NONE) * emissions.by_source[pair, target, source]
            )
        steps = []
        for target, ((before, _), (source, is_none)) in enumerate(pairwise(way)):
            del target
            if is_none:
                # It keeps the position.
                probability *= source == before
            else:
                reachable = sum(jumps[MAX_JUMP + other - before] for other in range(num_sources))
                probability *= jumps[MAX_JUMP + source - before] / reachable
                steps.append((before, source - before))
        total += probability
        for target, (source, is_none) in enumerate(way):
            if is_none:
                by_none[target] += probability
            else:
                by_source[target, source] += probability
        for before, step in steps:
            counts[MAX_JUMP + step] += probability
            # It could have gone to each word of this sentence.
            for other in range(num_sources):
                chances[MAX_JUMP + other - before] += probability
    return by_source / total, by_none / total, counts / total, chances / total


def test_a_hidden_markov_model(emissions: Emissions) -> None:
    jumps = np.random.default_rng(6).random(2 * MAX_JUMP + 1)
    found = find_by_order(emissions, jumps, NONE)
    counts, chances = np.zeros((2, 2 * MAX_JUMP + 1))
    for pair in range(2):
        by_source, by_none, counts_of_pair, chances_of_pair = count_by_hand(emissions, pair, jumps)
        num_targets, num_sources = by_source.shape
        np.testing.assert_allclose(
            found.by_source[pair, :num_targets, :num_sources], by_source, rtol=1e-12
        )
        np.testing.assert_allclose(found.by_none[pair, :num_targets], by_none, rtol=1e-12)
        counts += counts_of_pair
        chances += chances_of_pair
    np.testing.assert_allclose(found.jumps, counts, atol=1e-12)
    np.testing.assert_allclose(found.chances, chances, atol=1e-12)
    # Padding has none.
    assert not found.by_source[1, 3].any()
    assert found.by_none[1, 3] == 0.0


def test_model_1_is_a_share_of_each_word(emissions: Emissions) -> None:
    found = find_by_words(emissions, NONE)
    # Brown et al. 1993, section 4.2, with an empty word of probability NONE.
    for pair, target in [(0, 0), (0, 3), (1, 2)]:
        num_sources = int(emissions.source_lengths[pair])
        shares = emissions.by_source[pair, target, :num_sources] * (1 - NONE) / num_sources
        none = NONE * emissions.by_none[pair, target]
        total = shares.sum() + none
        np.testing.assert_allclose(
            found.by_source[pair, target, :num_sources], shares / total, rtol=1e-12
        )
        assert found.by_none[pair, target] == pytest.approx(none / total)


def test_a_long_pair_loses_no_precision() -> None:
    # 300 words each: the product of its probabilities is far below the least number.
    length = 300
    by_source = np.full((1, length, length), 1e-6)
    np.einsum("bii->bi", by_source)[:] = 1e-4
    lengths = np.array([length]), np.array([length])
    jumps = np.ones(2 * MAX_JUMP + 1)
    found = find_by_order(Emissions(by_source, np.full((1, length), 1e-9), *lengths), jumps, NONE)
    sums = found.by_source.sum(axis=2) + found.by_none
    np.testing.assert_allclose(sums, 1.0, rtol=1e-9)
    assert (found.by_source[0].argmax(axis=1) == np.arange(length)).all()
