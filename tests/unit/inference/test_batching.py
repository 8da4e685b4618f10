from hypothesis import given
from hypothesis import strategies as st

from mtkit.inference.engines.engine import (
    EncodedSource,
    make_batches,
    search_in_batches,
)
from mtkit.recipe.inference import Inference

from .fakes import BracketEngine


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(1, 200))
def test_batches_hold_every_sentence_once_and_no_more_than_they_may(lengths, batch_tokens):
    batches = make_batches(lengths, batch_tokens)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        padded = len(batch) * max(lengths[index] for index in batch)
        assert len(batch) == 1 or padded <= batch_tokens


def test_sentences_of_like_length_share_a_batch():
    assert make_batches([10, 30, 11, 29], 60) == [[1, 3], [2, 0]]


def test_a_source_counts_for_eight_tokens_at_least():
    assert [len(batch) for batch in make_batches([1] * 10, 32)] == [4, 4, 2]


def test_a_batch_holds_no_more_sentences_than_it_may():
    assert make_batches([9, 20, 8, 8, 8], 40, max_sentences=3) == [[1, 0], [2, 3, 4]]
    assert [len(batch) for batch in make_batches([8] * 5, 1_000, max_sentences=2)] == [2, 2, 1]


def test_an_engine_gets_as_many_batches_at_once_as_it_takes():
    sources = [EncodedSource([7] * 16) for _ in range(10)]
    for batches_at_once, expected in ((1, [2, 2, 2, 2, 2]), (3, [6, 4])):
        engine = BracketEngine()
        engine.batches_at_once = batches_at_once
        found = search_in_batches(engine, sources, Inference(batch_tokens=32, n_best=2))
        assert [len(batch) for batch in engine.batches] == expected
        assert all(len(hypotheses) == 2 for hypotheses in found)
