import math

import pytest
import torch

from mtkit.inference.search.beam import beam_search, coverage_penalty
from mtkit.inference.search.step_model import EnsembleSteps
from mtkit.recipe.inference import LengthPenalty
from mtkit.text.token_ids import EOS

from .table_model import A, B, TableModel, drawn_at_random, written_out

_PLAIN = LengthPenalty(kind="power", alpha=0.0)


def test_what_got_its_share_costs_nothing_and_padding_neither():
    coverage = torch.tensor([[[1.5, 0.5, 0.0], [0.25, 0.25, 0.0]]])
    source_is_token = torch.tensor([[True, True, False]])
    penalties = coverage_penalty(coverage, source_is_token, 0.2)
    expected = [0.2 * math.log(0.5), 0.2 * (math.log(0.25) + math.log(0.25))]
    assert penalties[0].tolist() == pytest.approx(expected)


# The logarithm of 2^-126, fp32's smallest normal number, to which engines may round down.
_LOWEST = -126 * math.log(2)


@pytest.mark.parametrize("nothing", [0.0, -0.0, 1e-45, 1e-40, 2.0**-126])
@pytest.mark.parametrize("beta", [0.2, 1000.0])
def test_no_attention_costs_much_but_no_infinity(nothing, beta):
    coverage = torch.tensor([[[0.5, nothing, nothing], [0.5, 1e-30, nothing], [1.0, 1.0, 0.5]]])
    found = coverage_penalty(coverage, torch.ones(1, 3, dtype=torch.bool), beta)[0].tolist()
    half = math.log(0.5)
    expected = [half + 2 * _LOWEST, half + math.log(1e-30) + _LOWEST, half]
    assert found == pytest.approx([beta * each for each in expected], rel=1e-6)
    # What is left out never costs less than what is looked at a little.
    assert found == sorted(found)


def test_the_penalty_only_rises_with_attention():
    weights = torch.cat((torch.zeros(1), torch.logspace(-45, 0.5, 200)))
    penalties = coverage_penalty(weights[None, :, None], torch.tensor([[True]]), 1.0)[0]
    assert penalties.isfinite().all()
    assert (penalties.diff() >= 0).all()
    assert (penalties[0], penalties[-1]) == (pytest.approx(_LOWEST), 0.0)


@pytest.mark.parametrize("padding", [0.0, math.nan, math.inf])
def test_a_source_of_padding_alone_costs_nothing(padding):
    coverage = torch.tensor([[[padding] * 3], [[0.5, padding, padding]]])
    is_token = torch.tensor([[False] * 3, [True, False, False]])
    found = coverage_penalty(coverage, is_token, 0.5).flatten().tolist()
    assert found == pytest.approx([0.0, 0.5 * math.log(0.5)])


def test_a_penalty_has_the_same_bits_whatever_the_padding():
    generator = torch.Generator().manual_seed(5)
    coverage = torch.rand(4, 3, 150, generator=generator)
    lengths = torch.tensor([3, 13, 60, 149])
    is_token = torch.arange(150) < lengths[:, None]
    together = coverage_penalty(coverage, is_token, 0.3)
    for row, length in enumerate(lengths.tolist()):
        for width in range(length, 150):
            alone = coverage_penalty(
                coverage[row : row + 1, :, :width], is_token[row : row + 1, :width], 0.3
            )
            assert torch.equal(alone[0], together[row])
        expected = 0.3 * coverage[row, :, :length].double().log().sum(-1)
        torch.testing.assert_close(together[row].double(), expected, rtol=1e-6, atol=0.0)


def test_an_output_that_leaves_out_a_token_can_still_be_found_and_compared():
    # A looks at the first token alone, B at both alike; A </s> is likelier than B </s>.
    table = written_out({(): {A: 0.9, B: 0.1}, (A,): {EOS: 1.0}, (B,): {EOS: 1.0}})

    def attention(prefix):
        return [0.5, 0.5] if prefix == (B,) else [1.0, 0.0]

    for beta in (0.0, 0.5):
        (found,) = beam_search(
            TableModel([table], attention),
            torch.tensor([3]),
            beam_size=2,
            penalty=_PLAIN,
            coverage=beta,
        )
        scores = {hypothesis.token_ids: hypothesis.score for hypothesis in found}
        assert scores == {
            (A, EOS): pytest.approx(math.log(0.9) + beta * _LOWEST),
            (B, EOS): pytest.approx(math.log(0.1) + beta * math.log(0.5)),
        }
        assert found[0].token_ids == ((B, EOS) if beta else (A, EOS))


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
    assert found[0].token_ids == best
    scores = {hypothesis.token_ids: hypothesis.score for hypothesis in found}
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
                *(attention(best.token_ids[:place]) for place in range(len(best.token_ids))),
                strict=True,
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
    probabilities = {h.token_ids: math.exp(h.log_probability) for h in found}
    assert probabilities[EOS,] == pytest.approx(0.5)
    assert probabilities[A, EOS] == pytest.approx(0.5 * 0.75)
    assert probabilities[A, B, EOS] == pytest.approx(0.5 * 0.25 * 1.0)
