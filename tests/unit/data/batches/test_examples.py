"""Texts as a classifier reads them: cut as BERT's code does, closed as GPT's paper says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.data.batches.examples import collate_together, find_closing
from mtkit.data.batches.joined_texts import join_rows
from mtkit.data.batches.ragged import Ragged
from mtkit.errors import MtkitError
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.train_tokenizer import train_tokenizer

BOS, EOS = 2, 3
DELIMITER, EXTRACT = 50, 51


def truncate_seq_pair(tokens_a: list[int], tokens_b: list[int], max_length: int) -> None:
    """`_truncate_seq_pair` of google-research/bert, run_classifier.py."""
    while True:
        total_length = len(tokens_a) + len(tokens_b)
        if total_length <= max_length:
            break
        if len(tokens_a) > len(tokens_b):
            tokens_a.pop()
        else:
            tokens_b.pop()


texts = st.lists(st.integers(4, 49), max_size=20)


@given(texts, texts, st.integers(3, 30))
def test_a_pair_is_cut_as_by_berts_code(first, second, max_tokens) -> None:
    rows = join_rows([[*first, EOS]], [[*second, EOS]], max_tokens=max_tokens)
    a, b = list(first), list(second)
    truncate_seq_pair(a, b, max_tokens - 3)
    assert rows.to_lists() == [[*a, EOS, *b, EOS]]


@given(texts, st.integers(3, 30))
def test_one_text_keeps_its_beginning(first, max_tokens) -> None:
    rows = join_rows([[*first, EOS]], None, max_tokens=max_tokens)
    assert rows.to_lists() == [[*first[: max_tokens - 2], EOS]]


def test_segments_change_behind_the_first_closing_token() -> None:
    rows = Ragged.of([[7, 8, EOS, 9, EOS], [6, EOS], [EOS, 5, EOS]])
    batch = collate_together(rows, np.array([1, 0, 1]), None)
    width = 6
    assert batch.inputs.tolist() == [
        [BOS, 7, 8, EOS, 9, EOS, BOS, 6, EOS, 0, 0, 0, BOS, EOS, 5, EOS, 0, 0]
    ]
    assert batch.segments[0, :width].tolist() == [0, 0, 0, 0, 1, 1]
    assert batch.segments[0, width : 2 * width].tolist() == [0, 0, 0, 0, 0, 0]
    assert batch.segments[0, 2 * width :].tolist() == [0, 0, 1, 1, 0, 0]
    assert batch.labels.tolist() == [1, 0, 1]


def test_a_causal_classifier_reads_start_delimiter_and_extract_tokens() -> None:
    rows = Ragged.of([[7, 8, EOS, 9, EOS], [6, EOS]])
    batch = collate_together(rows, np.array([1, 0]), (DELIMITER, EXTRACT))
    first = [BOS, 7, 8, DELIMITER, 9, EXTRACT]
    assert batch.inputs.tolist() == [[*first, BOS, 6, EXTRACT, 0, 0, 0]]
    assert batch.tokens.tolist() == [*first, BOS, 6, EXTRACT]
    assert batch.tokens[batch.last].tolist() == [EXTRACT, EXTRACT]


def test_a_vocabulary_without_closing_tokens_is_an_error() -> None:
    lines = ["one two three four", "five six seven", "eight nine ten"] * 5
    tokenizer = train_tokenizer(Tokenizer(vocab_size=40), lines, [], seed=1)
    assert find_closing(tokenizer, "masked-lm") is None
    with pytest.raises(MtkitError, match="<delimiter> or <extract>"):
        find_closing(tokenizer, "causal-lm")
