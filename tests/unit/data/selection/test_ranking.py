"""Values at ranks, against a sort of all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import mtkit.data.selection.select_rows as ranking_module
from mtkit.data.selection.select_rows import find_ranked


@given(
    arrays(
        np.float32,
        st.integers(1, 60),
        elements=st.one_of(
            st.floats(width=32, allow_nan=True, allow_infinity=True),
            # Ties, and numbers that differ in their last bits alone.
            st.sampled_from([0.0, -0.0, 1.0, -1.0, 1.0 + 2**-23, -1.0 - 2**-23]),
        ),
    )
)
def test_values_at_all_ranks_are_those_of_a_sort(values: np.ndarray) -> None:
    expected = np.sort(values[~np.isnan(values)])
    if not len(expected):
        with pytest.raises(IndexError, match="rank 0 of 0"):
            find_ranked(values, [0])
        return
    assert find_ranked(values, list(range(len(expected)))) == expected.tolist()


def test_a_file_of_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking_module, "_AT_ONCE", 1_000)
    values = np.random.default_rng(3).normal(size=25_500).astype(np.float32)
    values[::7] = np.nan
    expected = np.sort(values[~np.isnan(values)])
    ranks = [17_000, 0, len(expected) - 1, 17_000]
    assert find_ranked(values, ranks) == expected[ranks].tolist()


def test_a_rank_beyond_the_last_is_an_error() -> None:
    with pytest.raises(IndexError, match="rank 2 of 2"):
        find_ranked(np.array([1, np.nan, 2], np.float32), [2])
