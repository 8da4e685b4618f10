"""Padded tensors, by hand."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from mtkit.data.batches.collate import pad
from mtkit.data.batches.ragged import Ragged, join_ranges
from mtkit.text.token_ids import EOS, PAD

SENTENCES = st.lists(st.lists(st.integers(4, 99), min_size=1, max_size=9), min_size=1, max_size=9)


def test_two_sentences_written_out() -> None:
    tokens, layout = pad(Ragged.of([[7, 8, EOS], [9, EOS]]))
    assert tokens.tolist() == [[7, 8, EOS], [9, EOS, PAD]]
    assert layout.is_token.tolist() == [[True, True, True], [True, True, False]]
    assert tokens.dtype == torch.int64
    assert layout.to(torch.device("cpu")).is_token is layout.is_token


@given(SENTENCES)
def test_padding_leaves_every_sentence_as_it_was(sentences) -> None:
    tokens, layout = pad(Ragged.of(sentences))
    is_token = layout.is_token
    assert [row[real].tolist() for row, real in zip(tokens, is_token, strict=True)] == sentences
    assert (tokens[~is_token] == PAD).all()
    assert tokens.shape == (len(sentences), max(map(len, sentences)))


@given(st.lists(st.lists(st.integers(4, 99), max_size=5), max_size=9))
def test_laid_end_to_end_and_taken_apart(sentences) -> None:
    ragged = Ragged.of(sentences)
    assert ragged.to_lists() == sentences
    assert ragged.tokens.tolist() == [token for sentence in sentences for token in sentence]
    assert len(ragged) == len(sentences)


def test_ranges_end_to_end() -> None:
    assert join_ranges(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
