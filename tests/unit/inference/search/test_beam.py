import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mtkit.inference.search.beam import beam_search, top_k
from mtkit.inference.search.penalties import length_penalty
from mtkit.inference.search.sampling import greedy_search
from mtkit.recipe.inference import LengthPenalty
from mtkit.text.token_ids import BOS, EOS, PAD, UNK

from .table_model import (
    A,
    B,
    Prefix,
    Table,
    TableModel,
    drawn_at_random,
    enumerate_outputs,
    written_out,
)

_PLAIN = LengthPenalty(kind="power", alpha=0.0)
_MEAN = LengthPenalty(kind="power", alpha=1.0)
_PENALTIES = [_PLAIN, _MEAN, LengthPenalty(kind="power", alpha=0.6), LengthPenalty()]

_GREEDY_ERRS = written_out(
    {
        (): {A: 0.6, B: 0.4},
        (A,): {EOS: 0.4, A: 0.3, B: 0.3},
        (B,): {EOS: 0.9, A: 0.1},
    }
)

# Worked out by hand for a beam of 2, scores divided by the length, at most 4 tokens:
# step 1  candidates A .6, </s> .3, B .1. Pool: </s> ln .3 / 1 = -1.204. Live: A .6, B .1.
# step 2  A A .54, B </s> .1, A </s> .06. Pool: B </s> ln .1 / 2 = -1.151, then </s>: full.
#         Live: A A, which may reach ln .54 / 4 = -0.154 > -1.204, so the search goes on.
# step 3  A A </s> .54: ln .54 / 3 = -0.205 is the best of all. Nothing is alive: the end.
_THE_LONGER_OVERTAKES = written_out(
    {
        (): {A: 0.6, EOS: 0.3, B: 0.1},
        (A,): {A: 0.9, EOS: 0.1},
    }
)


def _search(table: Table, max_length: int, beam_size: int, penalty: LengthPenalty):
    (hypotheses,) = beam_search(
        TableModel([table]), torch.tensor([max_length]), beam_size=beam_size, penalty=penalty
    )
    return hypotheses


def test_a_beam_of_two_finds_what_greedy_search_misses():
    best, second = _search(_GREEDY_ERRS, 4, 2, _PLAIN)
    assert (best.token_ids, second.token_ids) == ((B, EOS), (A, EOS))
    assert best.log_probability == pytest.approx(math.log(0.36), abs=1e-6)
    assert second.log_probability == pytest.approx(math.log(0.24), abs=1e-6)
    assert best.score == best.log_probability


def test_goes_on_while_a_live_hypothesis_can_still_win():
    best, second = _search(_THE_LONGER_OVERTAKES, 4, 2, _MEAN)
    assert (best.token_ids, second.token_ids) == ((A, A, EOS), (B, EOS))
    assert best.score == pytest.approx(math.log(0.54) / 3, abs=1e-6)
    assert second.score == pytest.approx(math.log(0.1) / 2, abs=1e-6)


def test_stops_as_soon_as_none_can():
    # ln .5 and ln .3 are in the pool after step 2; the live rest has .1 at most, so ln .1.
    table = written_out(
        {
            (): {EOS: 0.5, A: 0.4, B: 0.1},
            (A,): {EOS: 0.75, A: 0.25},
            (B,): {A: 1.0},
            (A, A): {A: 1.0},
            (B, A): {A: 1.0},
        }
    )
    model = TableModel([table])
    ((best, second),) = beam_search(model, torch.tensor([50]), beam_size=2, penalty=_PLAIN)
    assert (best.token_ids, second.token_ids) == ((EOS,), (A, EOS))
    assert model.num_steps == 2
    # Where one is wanted, ln .5 stands after step 1, and the live .4 comes after it.
    model = TableModel([table])
    ((best,),) = beam_search(model, torch.tensor([50]), beam_size=2, n_best=1, penalty=_PLAIN)
    assert best.token_ids == (EOS,)
    assert model.num_steps == 1


def test_a_longer_output_overtakes_even_in_a_beam_of_one_unless_alpha_is_0():
    table = written_out({(): {EOS: 0.6, A: 0.4}, (A,): {A: 1.0}, (A, A): {EOS: 1.0}})
    # ln .6 / 1 = -0.511, but ln .4 / 3 = -0.305.
    assert [found.token_ids for found in _search(table, 3, 1, _MEAN)] == [(A, A, EOS)]
    assert [found.token_ids for found in _search(table, 3, 1, _PLAIN)] == [(EOS,)]


@pytest.mark.parametrize(
    ("stop_margin", "expected", "num_steps"),
    [(0, (EOS,), 1), (1, (A, A, EOS), 3), (2, (A, A, EOS), 3), (None, (A, A, EOS), 3)],
)
def test_a_live_hypothesis_has_a_margin_to_win_within(stop_margin, expected, num_steps):
    # ln .6 / 1 = -0.511 has ended after step 1. A has ln .4 = -0.916, which loses if it ended at
    # once, and wins over two tokens: -0.458. Over three, which it takes, it is -0.305.
    table = written_out({(): {EOS: 0.6, A: 0.4}, (A,): {A: 1.0}, (A, A): {EOS: 1.0}})
    model = TableModel([table])
    ((best,),) = beam_search(
        model, torch.tensor([9]), beam_size=1, penalty=_MEAN, stop_margin=stop_margin
    )
    assert (best.token_ids, model.num_steps) == (expected, num_steps)


def test_outputs_cut_by_the_limit_compete_on_equal_terms():
    table = written_out({(): {A: 0.8, B: 0.2}, (A,): {A: 0.7, EOS: 0.3}, (B,): {EOS: 1.0}})
    found = _search(table, 2, 3, _PLAIN)
    assert [hypothesis.token_ids for hypothesis in found] == [(A, A), (A, EOS), (B, EOS)]
    assert [hypothesis.reached_limit for hypothesis in found] == [True, False, False]
    assert [math.exp(hypothesis.score) for hypothesis in found] == pytest.approx([0.56, 0.24, 0.2])


def test_equals_are_ranked_by_hypothesis_then_by_token():
    def uniform(_: Prefix) -> dict[int, float]:
        return dict.fromkeys((PAD, UNK, BOS, EOS, A, B), 1 / 6)

    # Step 1: UNK, </s> | A, B; </s> enters, UNK and A live on.
    # Step 2: UNK UNK, UNK </s> | UNK A, UNK B; UNK </s> enters, and nothing can beat ln 1/36.
    found = _search(uniform, 9, 2, _PLAIN)
    assert [hypothesis.token_ids for hypothesis in found] == [(EOS,), (UNK, EOS)]


def test_padding_and_begin_are_never_emitted():
    table = written_out({(): {PAD: 0.5, BOS: 0.3, A: 0.1, B: 0.1}})
    found = _search(table, 3, 2, _PLAIN)
    assert [hypothesis.token_ids for hypothesis in found] == [(A, EOS), (B, EOS)]
    # What they take away isn't given to the others.
    assert math.exp(found[0].log_probability) == pytest.approx(0.1)


def test_there_are_fewer_hypotheses_than_the_beam_where_fewer_outputs_exist():
    found = _search(drawn_at_random(0), 1, 8, _PLAIN)
    assert sorted(hypothesis.token_ids for hypothesis in found) == [(UNK,), (EOS,), (A,), (B,)]


@pytest.mark.parametrize("penalty", _PENALTIES, ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_a_beam_as_wide_as_all_outputs_finds_the_very_best(penalty, seed):
    table = drawn_at_random(seed)
    outputs = enumerate_outputs(table, max_length=4)
    assert len(outputs) == 1 + 3 + 9 + 4 * 27
    expected = {
        output: log_probability / length_penalty(penalty.kind, penalty.alpha, len(output))
        for output, log_probability in outputs.items()
    }
    ranked = sorted(expected, key=lambda output: -expected[output])
    found = _search(table, 4, len(outputs), penalty)
    assert [hypothesis.token_ids for hypothesis in found] == ranked
    assert [hypothesis.score for hypothesis in found] == pytest.approx(
        [expected[output] for output in ranked], abs=1e-5
    )


def _search_to_the_limit(
    table: Table, max_length: int, beam_size: int, penalty: LengthPenalty
) -> list[Prefix]:
    """Returns the n best by the same search in plain Python, which never stops early."""
    live: list[tuple[float, Prefix]] = [(0.0, ())]
    pool: list[tuple[float, Prefix]] = []
    for length in range(1, max_length + 1):
        candidates = sorted(
            (
                (total + math.log(probability), (*prefix, token))
                for total, prefix in live
                for token, probability in table(prefix).items()
                if token not in (PAD, BOS)
            ),
            reverse=True,
        )
        divisor = length_penalty(penalty.kind, penalty.alpha, length)
        pool += [
            (total / divisor, output)
            for total, output in candidates[:beam_size]
            if output[-1] == EOS or length == max_length
        ]
        live = [candidate for candidate in candidates if candidate[1][-1] != EOS][:beam_size]
    return [output for _, output in sorted(pool, reverse=True)[:beam_size]]


@pytest.mark.parametrize("penalty", _PENALTIES, ids=str)
@pytest.mark.parametrize(("beam_size", "n_best"), [(1, 1), (2, 2), (3, 1), (5, 5), (5, 2), (5, 1)])
def test_stopping_early_loses_nothing(penalty, beam_size, n_best):
    for seed in range(20):
        model = TableModel([drawn_at_random(seed)])
        (found,) = beam_search(
            model, torch.tensor([9]), beam_size=beam_size, n_best=n_best, penalty=penalty
        )
        expected = _search_to_the_limit(drawn_at_random(seed), 9, beam_size, penalty)[:n_best]
        assert [hypothesis.token_ids for hypothesis in found] == expected, seed


def test_a_beam_of_one_is_greedy_search_where_alpha_is_0():
    tables = [drawn_at_random(seed) for seed in range(30)]
    limits = torch.tensor([2 + seed % 7 for seed in range(30)])
    assert beam_search(TableModel(tables), limits, beam_size=1, penalty=_PLAIN) == greedy_search(
        TableModel(tables), limits, _PLAIN
    )


@pytest.mark.parametrize("penalty", _PENALTIES, ids=str)
def test_neighbours_in_the_batch_change_nothing(penalty):
    tables = [drawn_at_random(seed) for seed in range(20)]
    limits = [1 + seed % 8 for seed in range(20)]
    together = beam_search(TableModel(tables), torch.tensor(limits), beam_size=4, penalty=penalty)
    alone = [_search(table, limit, 4, penalty) for table, limit in zip(tables, limits, strict=True)]
    assert together == alone


@given(
    st.lists(
        st.lists(st.sampled_from([-math.inf, -2.0, -1.0, 0.0]), min_size=7, max_size=7),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 7),
)
def test_top_k_puts_equals_in_order_of_place(rows, k):
    values, places = top_k(torch.tensor(rows), k)
    for row, row_values, row_places in zip(rows, values.tolist(), places.tolist(), strict=True):
        ranked = sorted(range(len(row)), key=lambda place: (-row[place], place))[:k]
        assert row_values == [row[place] for place in ranked]
        # Which of the impossible come last is of no account.
        possible = [place for place in ranked if row[place] > -math.inf]
        assert row_places[: len(possible)] == possible


def test_top_k_takes_what_is_no_number_for_the_greatest():
    # As torch.topk does; equals stand on both sides of the cut.
    values, places = top_k(torch.tensor([[0.0, 0.0, math.nan, 0.0, -1.0]]), 2)
    assert places.tolist() == [[2, 0]]
    assert math.isnan(values[0, 0])
    assert values[0, 1] == 0.0


@pytest.mark.parametrize("penalty", _PENALTIES, ids=str)
@pytest.mark.parametrize(("coverage", "stop_margin"), [(0.0, None), (0.3, 1)])
@pytest.mark.parametrize("steps_at_once", [2, 5, 100])
def test_fewer_looks_at_what_has_ended_find_the_same(penalty, coverage, stop_margin, steps_at_once):
    tables = [drawn_at_random(seed) for seed in range(20)]
    limits = torch.tensor([1 + seed % 8 for seed in range(20)])
    models = [TableModel(tables, lambda prefix: [0.1 * len(prefix), 0.3]) for _ in range(2)]
    at_each_step, at_some = (
        beam_search(
            model,
            limits,
            beam_size=3,
            penalty=penalty,
            coverage=coverage,
            stop_margin=stop_margin,
            steps_at_once=steps,
        )
        for model, steps in zip(models, (1, steps_at_once), strict=True)
    )
    assert at_some == at_each_step
    assert models[0].num_steps <= models[1].num_steps <= 8
