import math
from collections import Counter

import pytest
import torch
from transformers import (
    EpsilonLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from mtkit.inference.search.rules import OutputRules
from mtkit.inference.search.sampling import draw, sample, truncate_distribution
from mtkit.recipe.inference import LengthPenalty, Sampling
from mtkit.text.token_ids import EOS

from .table_model import A, B, TableModel, drawn_at_random, written_out

_PLAIN = LengthPenalty(kind="power", alpha=0.0)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("top_k", [None, 1, 3, 40])
@pytest.mark.parametrize("top_p", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.02, 0.3])
def test_tokens_are_left_out_as_transformers_does(temperature, top_k, top_p, epsilon):
    torch.manual_seed(1)
    log_probs = torch.randn(4, 2, 40).mul(2.0).log_softmax(dim=-1)
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, epsilon=epsilon)
    probabilities, tokens = truncate_distribution(log_probs, sampling)
    ours = torch.zeros(4, 2, 40, dtype=torch.float64).scatter(2, tokens, probabilities)
    ours /= ours.sum(dim=-1, keepdim=True)

    scores = TemperatureLogitsWarper(temperature)(None, log_probs.double().flatten(0, 1))
    if top_k is not None:
        scores = TopKLogitsWarper(top_k)(None, scores)
    if top_p < 1.0:
        scores = TopPLogitsWarper(top_p)(None, scores)
    if epsilon > 0.0:
        scores = EpsilonLogitsWarper(epsilon)(None, scores)
    theirs = scores.softmax(dim=-1).view(4, 2, 40)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_a_number_picks_the_token_whose_share_it_falls_into():
    log_probs = torch.log(torch.tensor([[[0.2, 0.5, 0.3, 0.0]]]))
    # In order of probability: token 1 up to 0.5, token 2 up to 0.8, token 0 up to 1.
    for number, token in ((0.0, 1), (0.49, 1), (0.51, 2), (0.79, 2), (0.81, 0), (1 - 2**-53, 0)):
        drawn = draw(log_probs, torch.tensor([[number]], dtype=torch.float64), Sampling())
        assert drawn.tolist() == [[token]], number


def _sample(tables, *, num_samples=1, seed=1, draws=None, limit=6, rules=None, steps=None):
    return sample(
        TableModel(tables),
        torch.tensor([limit] * len(tables)),
        sampling=Sampling(seed=seed),
        num_samples=num_samples,
        draws=draws or [(line, 0) for line in range(len(tables))],
        penalty=_PLAIN,
        rules=rules or OutputRules(),
        steps_at_once=steps,
    )


def test_outputs_come_as_often_as_they_are_probable():
    table = written_out({(): {A: 0.5, B: 0.3, EOS: 0.2}, (A,): {EOS: 0.6, B: 0.4}})
    (found,) = _sample([table], num_samples=4_000)
    counts = Counter(hypothesis.token_ids for hypothesis in found)
    expected = {(A, EOS): 0.3, (A, B, EOS): 0.2, (B, EOS): 0.3, (EOS,): 0.2}
    assert counts.keys() == expected.keys()
    for output, share in expected.items():
        # Four standard deviations of 4,000 draws.
        spread = 4 * math.sqrt(share * (1 - share) / 4_000)
        assert counts[output] / 4_000 == pytest.approx(share, abs=spread)
        log_probability = next(h.log_probability for h in found if h.token_ids == output)
        assert log_probability == pytest.approx(math.log(share), abs=1e-6)
    assert found == sorted(found, key=lambda hypothesis: -hypothesis.score)


def test_neighbours_limits_and_the_number_of_samples_change_nothing():
    tables = [drawn_at_random(seed) for seed in range(20)]
    together = _sample(tables, limit=8)
    assert len({hypotheses[0].token_ids for hypotheses in together}) > 10
    for line, table in enumerate(tables):
        assert _sample([table], draws=[(line, 0)], limit=8) == [together[line]]
        several = _sample([table], draws=[(line, 0)], num_samples=3, limit=8)[0]
        assert together[line][0].token_ids in [hypothesis.token_ids for hypothesis in several]


@pytest.mark.parametrize("steps", [2, 3, 100])
def test_fewer_looks_at_what_has_ended_find_the_same(steps):
    tables = [drawn_at_random(number) for number in range(4)]
    usual = _sample(tables, num_samples=20, limit=9)
    assert _sample(tables, num_samples=20, limit=9, steps=steps) == usual


def test_another_seed_or_line_draws_something_else():
    table = drawn_at_random(4)
    outputs = {
        _sample([table], seed=seed, draws=[(line, part)], limit=12)[0][0].token_ids
        for seed in range(3)
        for line in range(3)
        for part in range(3)
    }
    assert len(outputs) > 10


def test_rules_hold_for_samples_too():
    rules = OutputRules([(A, B)] * 8, min_length=4)
    found = _sample([drawn_at_random(seed) for seed in range(8)], rules=rules, limit=9)
    for (hypothesis,) in found:
        assert hypothesis.token_ids[:2] == (A, B)
        assert len(hypothesis.token_ids) > 4
