import math

import pytest
import torch

from mtkit.inference.search.sampling import greedy_search
from mtkit.recipe.inference import LengthPenalty
from mtkit.text.token_ids import BOS, EOS, PAD

from .table_model import VOCAB, A, B, TableModel, drawn_at_random, written_out

_GREEDY_ERRS = written_out(
    {
        (): {A: 0.6, B: 0.4},
        (A,): {EOS: 0.4, A: 0.3, B: 0.3},
        (B,): {EOS: 0.9, A: 0.1},
    }
)


def test_takes_the_likeliest_token_at_each_step():
    ((hypothesis,),) = greedy_search(
        TableModel([_GREEDY_ERRS]), torch.tensor([4]), LengthPenalty(kind="power", alpha=1.0)
    )
    # 0.6 * 0.4, though B </s> would have 0.36.
    assert hypothesis.token_ids == (A, EOS)
    assert hypothesis.log_probability == pytest.approx(math.log(0.24), abs=1e-6)
    assert hypothesis.score == pytest.approx(math.log(0.24) / 2, abs=1e-6)
    assert hypothesis.is_finished
    assert not hypothesis.reached_limit


def test_the_limit_cuts_an_output_that_does_not_end():
    endless = written_out({(A,) * length: {A: 0.9, EOS: 0.1} for length in range(9)})
    outputs = greedy_search(
        TableModel([endless, endless]), torch.tensor([2, 3]), LengthPenalty(kind="gnmt", alpha=0.0)
    )
    assert [hypothesis.token_ids for (hypothesis,) in outputs] == [(A, A), (A, A, A)]
    assert all(hypothesis.reached_limit for (hypothesis,) in outputs)
    assert outputs[1][0].log_probability == pytest.approx(3 * math.log(0.9), abs=1e-6)


def test_padding_and_begin_are_never_emitted_and_a_tie_goes_to_the_lower_id():
    table = written_out({(): {PAD: 0.5, BOS: 0.3, A: 0.1, B: 0.1}})
    ((hypothesis,),) = greedy_search(TableModel([table]), torch.tensor([4]), LengthPenalty())
    assert hypothesis.token_ids == (A, EOS)
    assert hypothesis.log_probability == pytest.approx(math.log(0.1), abs=1e-6)


def test_neighbours_in_the_batch_change_nothing():
    tables = [drawn_at_random(seed) for seed in range(20)]
    limits = [2 + seed % 7 for seed in range(20)]
    together = greedy_search(TableModel(tables), torch.tensor(limits), LengthPenalty())
    alone = [
        greedy_search(TableModel([table]), torch.tensor([limit]), LengthPenalty())[0]
        for table, limit in zip(tables, limits, strict=True)
    ]
    assert together == alone
    assert {hypothesis.is_finished for (hypothesis,) in alone} == {True, False}
    assert max(token for (hypothesis,) in alone for token in hypothesis.token_ids) < VOCAB


@pytest.mark.parametrize("steps_at_once", [2, 3, 100])
def test_fewer_looks_at_what_has_ended_find_the_same(steps_at_once):
    limits = torch.tensor([1 + seed % 8 for seed in range(30)])
    penalty = LengthPenalty(kind="power", alpha=1.0)
    at_each_step, at_some = (
        greedy_search(
            TableModel([drawn_at_random(seed) for seed in range(30)]),
            limits,
            penalty,
            steps_at_once=steps,
        )
        for steps in (1, steps_at_once)
    )
    assert at_some == at_each_step
    assert {output.is_finished for (output,) in at_some} == {True, False}
