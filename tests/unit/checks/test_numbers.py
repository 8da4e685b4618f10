import pytest

from mtkit.checks.numbers import find_written_numbers
from mtkit.checks.text import list_lacking_addresses


@pytest.mark.parametrize(
    "written",
    ["1,234.5", "1.234,5", "1 234,5", "1\u2009234,5", "1\u202f234.50", "1'234.5", "١٬٢٣٤٫٥"],
)
def test_a_number_is_the_same_however_it_is_written(written: str) -> None:
    assert find_written_numbers(f"about {written}, they say.") == {"1234.5"}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("3,10 €", {"3.1"}),
        ("1.000.000", {"1000000"}),
        ("12,34,567 rupees", {"1234567"}),
        ("in 2015 300 people", {"2015", "300"}),
        ("on 12.05.2017", {"12", "5", "2017"}),
        ("Python 3.11.7", {"3", "11", "7"}),
        ("at 17:05", {"17", "5"}),
        ("the 21st", {"21"}),
        ("007 and 0", {"7", "0"}),
        ("see http://example.org/2024", set()),
        ("twelve", set()),
    ],
)
def test_numbers_of_a_text(text: str, numbers: set[str]) -> None:
    assert find_written_numbers(text) == numbers


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("See https://www.Example.org/a?b=1.", {"example.org/a?b=1"}),
        ("(www.example.org)", {"example.org"}),
        ("Write to Jo.Doe@example.org!", {"jo.doe@example.org"}),
        ("请看http://example.org。", {"example.org"}),
        ("at @home, 5 m/s", set()),
    ],
)
def test_addresses_of_a_text(text: str, addresses: set[str]) -> None:
    assert set(list_lacking_addresses(text)) == addresses
