import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import NoRepeatNGramLogitsProcessor

from mtkit.inference.search.beam import beam_search
from mtkit.inference.search.rules import OutputRules
from mtkit.inference.search.sampling import greedy_search
from mtkit.recipe.inference import LengthPenalty
from mtkit.text.token_ids import BOS, EOS, PAD

from .table_model import A, B, TableModel, drawn_at_random, written_out

_PLAIN = LengthPenalty(kind="power", alpha=0.0)
_UNK = 1


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_repeats_are_forbidden_as_transformers_does(n):
    generator = random.Random(n)
    # Five tokens that are neither padding nor begin, so that n-grams come again soon.
    for length in (0, 1, 2, 3, 8, 20):
        history = torch.tensor(
            [[[generator.randrange(4, 9) for _ in range(length)] for _ in range(3)]] * 2,
            dtype=torch.int64,
        ).view(2, 3, length)
        ours = torch.zeros(2, 3, 9)
        OutputRules(no_repeat_ngram=n).apply(ours, history, [0, 1])
        theirs = NoRepeatNGramLogitsProcessor(n)(history.flatten(0, 1), torch.zeros(6, 9)).view(
            2, 3, 9
        )
        theirs[..., (PAD, BOS)] = -torch.inf
        assert ours.equal(theirs)
        if length == 20:
            assert n > 2 or ours[..., 4:].isinf().any()


def test_no_end_before_the_least_length():
    table = written_out({(): {EOS: 0.9, A: 0.1}, (A,): {EOS: 0.8, A: 0.2}, (A, A): {EOS: 1.0}})
    for min_length, expected in ((0, (EOS,)), (1, (A, EOS)), (2, (A, A, EOS))):
        rules = OutputRules(min_length=min_length)
        limits = torch.tensor([5])
        ((greedy,),) = greedy_search(TableModel([table]), limits, _PLAIN, rules)
        ((best, *_),) = beam_search(
            TableModel([table]), limits, beam_size=2, penalty=_PLAIN, rules=rules
        )
        assert greedy.token_ids == best.token_ids == expected


@pytest.mark.parametrize("beam_size", [1, 3])
def test_an_output_begins_with_its_sentence_s_prefix_and_has_its_probability(beam_size):
    tables = [drawn_at_random(seed) for seed in range(6)]
    prefixes = [(), (A,), (B, B, B), (_UNK, A), (A, B), ()]
    limits = torch.tensor([6] * 6)
    rules = OutputRules(prefixes)
    found = (
        greedy_search(TableModel(tables), limits, _PLAIN, rules)
        if beam_size == 1
        else beam_search(
            TableModel(tables), limits, beam_size=beam_size, penalty=_PLAIN, rules=rules
        )
    )
    for table, prefix, hypotheses in zip(tables, prefixes, found, strict=True):
        assert len(hypotheses) == beam_size
        for hypothesis in hypotheses:
            tokens = hypothesis.token_ids
            assert tokens[: len(prefix)] == prefix
            probabilities = [table(tokens[:place])[token] for place, token in enumerate(tokens)]
            expected = torch.tensor(probabilities).log()
            assert hypothesis.token_log_probabilities == pytest.approx(expected.tolist(), abs=1e-5)
            assert hypothesis.log_probability == pytest.approx(expected.sum().item(), abs=1e-5)


def test_a_prefix_goes_before_other_rules():
    rules = OutputRules([(A, A, A)], min_length=5, no_repeat_ngram=1)
    ((found,),) = greedy_search(TableModel([drawn_at_random(3)]), torch.tensor([4]), _PLAIN, rules)
    assert found.token_ids[:3] == (A, A, A)
    assert found.token_ids[3] not in (A, EOS)


def test_what_is_forbidden_keeps_its_share():
    """The probabilities of what may be emitted stay as they were."""
    log_probs = torch.log(torch.tensor([[[0.1, 0.2, 0.1, 0.3, 0.2, 0.1]]]))
    OutputRules(min_length=1).apply(log_probs, torch.empty(1, 1, 0, dtype=torch.int64), [0])
    expected = [0.0, 0.2, 0.0, 0.0, 0.2, 0.1]
    assert log_probs.exp()[0, 0].tolist() == pytest.approx(expected)


@given(
    st.lists(st.integers(3, 6), min_size=4, max_size=4),
    st.lists(st.lists(st.integers(3, 6), min_size=1, max_size=3), max_size=5),
)
def test_phrases_are_forbidden_behind_their_beginnings(history, phrases):
    outputs = torch.tensor([[history, history[::-1]]])
    log_probs = torch.zeros(1, 2, 7)
    OutputRules(forbidden=[phrases]).apply(log_probs, outputs, [0])
    for row, output in enumerate(outputs[0].tolist()):
        for token in range(3, 7):
            # A token is forbidden if a phrase would end with it.
            longer = [*output, token]
            is_forbidden = any(longer[-len(phrase) :] == phrase for phrase in phrases)
            assert (log_probs[0, row, token] == -torch.inf) == is_forbidden
