"""Sentences laid end to end, by hand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mtkit.data.batches.ragged import Ragged, join_ranges


@given(st.lists(st.lists(st.integers(4, 99), max_size=5), max_size=9))
def test_laid_end_to_end_and_taken_apart(sentences) -> None:
    ragged = Ragged.of(sentences)
    assert ragged.to_lists() == sentences
    assert ragged.tokens.tolist() == [token for sentence in sentences for token in sentence]
    assert len(ragged) == len(sentences)


def test_ranges_end_to_end() -> None:
    assert join_ranges(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
