import pytest
from pydantic import ValidationError

from mtkit.inference.search.penalties import length_penalty
from mtkit.recipe.inference import Inference, LengthPenalty, Rerank, Sampling


@pytest.mark.parametrize("kind", ["gnmt", "power"])
def test_the_strongest_length_penalty_is_a_number_at_any_length(kind):
    strongest = LengthPenalty(kind=kind, alpha=10.0)
    # 10^60 by the power form, where fp64 ends at 10^308.
    assert 1e50 < length_penalty(kind, strongest.alpha, 1_000_000) < 1e61
    with pytest.raises(ValidationError, match="less than or equal to 10"):
        LengthPenalty(kind=kind, alpha=10.5)


@pytest.mark.parametrize("temperature", [1e-309, 0.0, 1e300])
def test_temperatures_that_leave_no_probabilities(temperature):
    with pytest.raises(ValidationError, match="temperature"):
        Sampling(temperature=temperature)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rerank": {"candidates": 5}}, "rerank.candidates = 5 is greater than beam_size = 4"),
        ({"n_best": 3, "rerank": {"candidates": 2}}, "n_best = 3 is greater than rerank.candidate"),
        ({"n_best": 5, "rerank": {}}, "n_best = 5 is greater than beam_size = 4"),
        ({"rerank": {"prune": 2}}, "set aggregate to true"),
        ({"rerank": {"metric": "./da", "aggregate": True}}, "aggregate is for chrf and bleu"),
    ],
)
def test_candidates_that_a_search_hasnt(settings, message):
    with pytest.raises(ValidationError, match=message):
        Inference.model_validate(settings)


def test_samples_need_no_beam():
    drawn = Inference(sampling=Sampling(), n_best=8, rerank=Rerank(candidates=100))
    assert drawn.num_candidates == 100


def test_paths_of_other_folders_arent_saved():
    settings = Inference(rerank=Rerank(metric="runs/da", candidates=3))
    assert settings.without_paths.rerank is None
    assert Inference(rerank=Rerank()).without_paths.rerank == Rerank()
