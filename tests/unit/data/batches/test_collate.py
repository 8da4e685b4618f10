"""Padded tensors, by hand."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from mtkit.data.batches.collate import collate, pad
from mtkit.data.batches.ragged import Ragged, join_ranges
from mtkit.text.token_ids import BOS, EOS, PAD

SENTENCES = st.lists(st.lists(st.integers(4, 99), min_size=1, max_size=9), min_size=1, max_size=9)


def test_two_pairs_written_out() -> None:
    source = Ragged.of([[7, 8, EOS], [9, EOS]])
    target = Ragged.of([[5, EOS], [6, 4, 5, EOS]])
    batch = collate(source, target)
    assert batch.source_tokens.tolist() == [[7, 8, EOS], [9, EOS, PAD]]
    assert batch.source_is_token.tolist() == [[True, True, True], [True, True, False]]
    assert batch.target_inputs.tolist() == [[BOS, 5, PAD, PAD], [BOS, 6, 4, 5]]
    assert batch.target_outputs.tolist() == [[5, EOS, PAD, PAD], [6, 4, 5, EOS]]
    assert batch.target_is_token.tolist() == [[True, True, False, False], [True] * 4]
    assert batch.source_tokens.dtype == torch.int64
    assert batch.to(torch.device("cpu")).source_tokens is batch.source_tokens


@given(SENTENCES)
def test_padding_leaves_every_sentence_as_it_was(sentences) -> None:
    tokens, is_token = pad(Ragged.of(sentences))
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
