"""A computed shuffle is a permutation, and as fair as a drawn one."""

from itertools import permutations
from math import factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.data.batches.permutation import derive_keys, permute, scale_keys


@given(st.lists(st.integers(1, 300), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_every_range_is_permuted_whatever_stands_beside_it(sizes, seed) -> None:
    keys = derive_keys(seed, count=len(sizes))
    places = np.concatenate([np.arange(size) for size in sizes])
    moved = permute(places, np.repeat(sizes, sizes), np.repeat(keys, sizes))
    for size, key, part in zip(sizes, keys, np.split(moved, np.cumsum(sizes)), strict=False):
        assert sorted(part.tolist()) == list(range(size))
        alone = permute(np.array([size - 1]), np.array([size]), np.array([key]))
        assert alone[0] == part[-1]


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_all_orders_of_a_few_come_up_equally_often(size: int) -> None:
    num_orders = factorial(size)
    num_keys = 100 * num_orders
    keys = derive_keys(3, size, count=num_keys)
    moved = permute(
        np.tile(np.arange(size), num_keys), np.full(size * num_keys, size), np.repeat(keys, size)
    ).reshape(num_keys, size)
    found, counts = np.unique(moved, axis=0, return_counts=True)
    assert sorted(map(tuple, found.tolist())) == sorted(permutations(range(size)))
    # Pearson's chi-square has mean d and variance 2 d at d = orders - 1 degrees of freedom; for
    # fair keys it is within four deviations all but once in 10,000 times.
    chi_square = ((counts - 100) ** 2 / 100).sum()
    freedom = num_orders - 1
    assert abs(chi_square - freedom) < 4 * (2 * freedom) ** 0.5 + 4


def test_a_million_places_are_shuffled_well() -> None:
    size = 1_000_003
    places = np.arange(size)
    moved = permute(places, np.full(size, size), np.repeat(derive_keys(1, count=1), size))
    assert (np.bincount(moved, minlength=size) == 1).all()
    # Correlations of N fair draws are normal with deviation 1 / sqrt(N), here 0.001.
    assert abs(np.corrcoef(places, moved)[0, 1]) < 0.005
    assert abs(np.corrcoef(moved[1:], moved[:-1])[0, 1]) < 0.005
    # A fair permutation keeps one place on average (Montmort 1708); over ten, one in 10^10 times.
    assert (moved == places).sum() <= 12


def test_keys_differ_by_each_word_and_number() -> None:
    drawn = [derive_keys(*words, count=100) for words in ((1, 2), (2, 1), (1, 3), (0, 1, 2))]
    assert len(set(np.concatenate(drawn).tolist())) == 400
    assert (derive_keys(1, 2, count=50) == drawn[0][:50]).all()


def test_numbers_from_keys_fill_their_range_evenly() -> None:
    counts = np.bincount(scale_keys(derive_keys(5, count=70_000), np.full(70_000, 7)))
    # 10,000 expected of each, with a deviation of 93.
    assert len(counts) == 7
    assert abs(counts - 10_000).max() < 400
