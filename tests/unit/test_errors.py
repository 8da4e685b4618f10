import pytest

from mtkit.errors import MtkitError, suggest


def test_an_error_reads_as_its_message() -> None:
    error = MtkitError("train.en: no such file", "check data_root")
    assert (str(error), error.hint) == ("train.en: no such file", "check data_root")
    assert MtkitError("x").hint == ""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("max_stps", " (did you mean 'max_steps'?)"),
        ("maxsteps", " (did you mean 'max_steps'?)"),
        ("zebra", ""),
    ],
)
def test_the_closest_known_name_is_suggested(name: str, expected: str) -> None:
    assert suggest(name, ["max_steps", "batch_tokens", "seed"]) == expected
