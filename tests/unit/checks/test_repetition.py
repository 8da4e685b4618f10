"""Repeated stretches beside a plain loop over words."""

from hypothesis import given
from hypothesis import strategies as st

from mtkit.checks.text import build_table, find_repetitive, read_code_points


@given(st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=40), st.integers(1, 3))
def test_repetition_is_what_a_loop_finds(words: list[str], max_repeats: int) -> None:
    table = build_table((), ())
    expected = any(
        words[start : start + size] * (max_repeats + 1)
        == words[start : start + size * (max_repeats + 1)]
        for size in (1, 2, 3, 4)
        for start in range(len(words))
    )
    text = read_code_points([" ".join(words), "x"], table)
    assert find_repetitive(text, max_repeats).tolist() == [expected, False]
