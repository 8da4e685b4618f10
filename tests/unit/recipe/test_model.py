import pytest
from pydantic import ValidationError

from mtkit.recipe.model import Model


def test_a_model_that_older_versions_know_is_written_as_they_wrote_it() -> None:
    # The keys of the first model folders and checkpoints, in which any other was refused.
    known = {"num_encoder_layers", "num_decoder_layers", "d_model", "d_ff", "num_heads", "d_key"}
    known |= {"d_value", "attention_window", "norm", "activation", "positions", "max_positions"}
    known |= {"tied_embeddings", "dropout", "attention_dropout", "activation_dropout"}
    assert set(Model().model_dump()) == known


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
def test_a_later_key_is_written_where_it_says_something(key: str, value: object) -> None:
    model = Model(**{key: value})
    assert model.model_dump(mode="json")[key] == value
    assert Model.model_validate_json(model.model_dump_json()) == model


def test_learned_positions_begin_at_0() -> None:
    with pytest.raises(ValidationError, match="first_position is for sinusoidal positions"):
        Model(positions="learned", first_position=2)
