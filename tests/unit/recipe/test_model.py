import pytest
from pydantic import ValidationError

from mtkit.recipe.model import Model


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sinusoids", "halves"),
        ("first_position", 2),
        ("scale_embeddings", False),
        ("embedding_norm", True),
        ("output_bias", True),
    ],
)
def test_a_key_is_written_and_read(key: str, value: object) -> None:
    model = Model(**{key: value})
    assert model.model_dump(mode="json")[key] == value
    assert Model.model_validate_json(model.model_dump_json()) == model


def test_learned_positions_begin_at_0() -> None:
    with pytest.raises(ValidationError, match="first_position is for sinusoidal positions"):
        Model(positions="learned", first_position=2)
