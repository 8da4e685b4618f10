import pytest
from pydantic import ValidationError

from mtkit.inference.search.penalties import length_penalty
from mtkit.recipe.inference import LengthPenalty, Sampling


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
