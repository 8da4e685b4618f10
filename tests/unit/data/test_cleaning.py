"""Which training pairs are left out."""

from collections import Counter

import pytest

from mtkit.data.cleaning import drop_blank, is_too_long


def test_a_pair_with_a_blank_side_is_dropped_and_counted() -> None:
    counts: Counter[str] = Counter()
    pairs = [("a", "b"), ("", "b"), ("a", "  "), (" ", "\t"), ("\u00a0", "b"), (" a ", "b")]
    assert list(drop_blank(pairs, counts)) == [("a", "b"), (" a ", "b")]
    assert counts == {"blank": 4}


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [(3, 3, False), (4, 3, True), (3, 4, True), (1, 1, False)],
)
def test_the_longer_side_counts(source: int, target: int, *, expected: bool) -> None:
    assert is_too_long([0] * source, [0] * target, 3) is expected
