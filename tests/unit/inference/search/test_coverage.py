import math

import pytest
import torch

from mtkit.data.tokenizer import EOS
from mtkit.inference.search.beam import beam_search
from mtkit.inference.search.coverage import coverage_penalty
from mtkit.inference.search.step_model import EnsembleSteps
from mtkit.recipe.inference import LengthPenalty

from .table_model import A, B, TableModel, drawn_at_random, written_out

_PLAIN = LengthPenalty(kind="power", alpha=0.0)


def test_what_got_its_share_costs_nothing_and_padding_neither():
    coverage = torch.tensor([[[1.5, 0.5, 0.0], [0.25, 0.25, 0.0]]])
    source_is_token = torch.tensor([[True, True, False]])
    penalties = coverage_penalty(coverage, source_is_token, 0.2)
    expected = [0.2 * math.log(0.5), 0.2 * (math.log(0.25) + math.log(0.25))]
    assert penalties[0].tolist() == pytest.approx(expected)


# The first source token is looked at while A is emitted, the second while B is; all else looks at
# both alike. By probability A </s> wins: 0.42 against 0.336 for B A </s>.
_TABLE = written_out(
    {
        (): {A: 0.6, B: 0.4},
        (A,): {EOS: 0.7, A: 0.3},
        (B,): {A: 0.84, EOS: 0.16},
    }
)


def _attention(prefix: tuple[int, ...]) -> list[float]:
    # The newest step comes after this prefix; it emits A after (), and after (B,).
    return {(): [0.5, 0.5], (A,): [0.9, 0.1], (B,): [0.5, 0.5]}.get(prefix, [0.5, 0.5])


@pytest.mark.parametrize(("beta", "best"), [(0.0, (A, EOS)), (1.0, (B, A, EOS))])
def test_an_output_that_looks_at_all_of_the_source_wins(beta, best):
    (found,) = beam_search(
        TableModel([_TABLE], _attention),
        torch.tensor([4]),
        beam_size=3,
        penalty=_PLAIN,
        coverage=beta,
    )
    assert found[0].tokens == best
    scores = {hypothesis.tokens: hypothesis.score for hypothesis in found}
    # A </s> paid 0.5 + 0.9 to the first and 0.5 + 0.1 to the second; B A </s> 1.5 to each.
    assert scores[A, EOS] == pytest.approx(math.log(0.42) + beta * math.log(0.6), abs=1e-5)
    assert scores[B, A, EOS] == pytest.approx(math.log(0.336), abs=1e-5)


def test_stopping_early_loses_nothing_with_a_coverage_penalty_either():
    def attention(prefix):
        share = 0.5 + 0.4 * math.sin(sum(prefix) + len(prefix))
        return [share, 1.0 - share]

    for seed in range(10):
        (wide,) = beam_search(
            TableModel([drawn_at_random(seed)], attention),
            torch.tensor([4]),
            beam_size=200,
            penalty=_PLAIN,
            coverage=0.5,
        )
        # All 121 outputs: by hand, the best is the best.
        best = max(wide, key=lambda hypothesis: hypothesis.score)
        coverage = [
            sum(column)
            for column in zip(
                *(attention(best.tokens[:place]) for place in range(len(best.tokens))), strict=True
            )
        ]
        expected = best.log_probability + 0.5 * sum(math.log(min(part, 1.0)) for part in coverage)
        assert wide[0] == best
        assert best.score == pytest.approx(expected, abs=1e-5)


def test_an_ensemble_speaks_with_its_members_mean_probability():
    first = {(): {A: 0.9, EOS: 0.1}, (A,): {EOS: 0.5, B: 0.5}}
    second = {(): {A: 0.1, EOS: 0.9}, (A,): {EOS: 1.0}}
    members = [TableModel([written_out(table)]) for table in (first, second)]
    (found,) = beam_search(EnsembleSteps(members), torch.tensor([3]), beam_size=3, penalty=_PLAIN)
    probabilities = {h.tokens: math.exp(h.log_probability) for h in found}
    assert probabilities[EOS,] == pytest.approx(0.5)
    assert probabilities[A, EOS] == pytest.approx(0.5 * 0.75)
    assert probabilities[A, B, EOS] == pytest.approx(0.5 * 0.25 * 1.0)
