import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.evaluation.analysis.comparison import (
    SentenceScores,
    compare_sentences,
    count_gains,
    rank_gains,
)


def test_greatest_differences_come_first() -> None:
    assert rank_gains([10, 30, -5, 0, -1]) == ([1, 0], [2, 4])


def test_of_equal_gains_the_earlier_sentence_is_first() -> None:
    assert rank_gains([5, 5, -5, -5]) == ([0, 1], [2, 3])


def test_two_systems_side_by_side() -> None:
    outputs = {"old": ["a", "b", "c"], "new": ["x", "y", "z"]}
    scores = SentenceScores("TER", False, {"old": [50, 50, 50], "new": [20, 60, 50]})
    found = compare_sentences(
        "new", "old", outputs, ["r", "s", "t"], scores, sources=["1", "2", "3"]
    )
    assert (found.num_won, found.num_lost, found.num_tied) == (1, 1, 1)
    [won] = found.won
    assert (won.index, won.gain, won.source, won.reference) == (0, 30, "1", "r")
    assert (won.output, won.score, won.baseline_output, won.baseline_score) == ("x", 20, "a", 50)
    assert [example.index for example in found.lost] == [1]


def test_gains_lie_in_bins_about_zero() -> None:
    # The greatest gain is 10.5 bins wide at most: 21 / 10.5 = 2.
    histogram = count_gains([-21, 0, 0.9, -0.9, 1.1, 21])
    assert histogram.edges == pytest.approx([-21 + 2 * place for place in range(22)])
    assert histogram.counts == (1, *[0] * 9, 3, 1, *[0] * 8, 1)


def test_an_outlier_does_not_widen_the_bins() -> None:
    histogram = count_gains([*[-21, 21] * 100, 5000])
    assert histogram.edges[-1] == pytest.approx(21)
    assert (histogram.counts[0], histogram.counts[-1]) == (100, 101)


@given(st.lists(st.floats(-1000, 1000), max_size=99))
def test_every_gain_is_in_a_bin(gains: list[float]) -> None:
    histogram = count_gains(gains)
    assert sum(histogram.counts) == len(gains)
    assert len(histogram.edges) == len(histogram.counts) + 1 <= 22
    assert histogram.edges[0] == pytest.approx(-histogram.edges[-1])
    # Wide enough for the greatest, but for how numbers are rounded.
    assert histogram.edges[-1] >= max(map(abs, gains), default=0) * (1 - 1e-6)
