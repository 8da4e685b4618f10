import pytest

from mtkit.inference.search.penalties import length_penalty


@pytest.mark.parametrize(
    ("kind", "alpha", "length", "expected"),
    [
        # ((5 + 1) / 6)^alpha is 1 whatever alpha is: arXiv 1609.08144, equation 14.
        ("gnmt", 0.6, 1, 1.0),
        # ((5 + 7) / 6)^0.6 = 2^0.6
        ("gnmt", 0.6, 7, 1.5157165665),
        ("gnmt", 1.0, 19, 4.0),
        ("power", 0.5, 16, 4.0),
        ("power", 1.0, 7, 7.0),
        ("power", 0.6, 1, 1.0),
        ("gnmt", 0.0, 30, 1.0),
        ("power", 0.0, 30, 1.0),
    ],
)
def test_by_hand(kind, alpha, length, expected):
    assert length_penalty(kind, alpha, length) == pytest.approx(expected, abs=1e-10)
