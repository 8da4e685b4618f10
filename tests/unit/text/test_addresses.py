import pytest

from mtkit.text.protected import find_addresses, remove_addresses


@pytest.mark.parametrize(
    ("folded", "addresses"),
    [
        ("see https://www.example.org/a?b=1.", ["example.org/a?b=1"]),
        ("(www.example.org), ftp://x.org/*", ["example.org", "x.org"]),
        ("write to jo.doe+news@mail.example.org!", ["jo.doe+news@mail.example.org"]),
        ("请看http://example.org。", ["example.org"]),
        ("at @home, 5 m/s, user@localhost, a://", []),
        ("example.org", []),
    ],
)
def test_addresses_are_found_without_scheme_and_www(folded: str, addresses: list[str]) -> None:
    assert find_addresses(folded) == addresses


def test_a_mailbox_has_64_characters_at_most() -> None:
    # RFC 5321, section 4.5.3.1.1; of a longer run the end alone can be one.
    assert find_addresses("x" * 5000 + "@example.org") == ["x" * 64 + "@example.org"]


def test_numbers_in_addresses_can_be_left_out() -> None:
    assert remove_addresses("in 2015, see http://example.org/2024 again") == "in 2015, see   again"
