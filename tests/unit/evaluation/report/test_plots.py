import pytest

from mtkit.evaluation.analysis.analyze import BucketScores, ScoresByBucket
from mtkit.evaluation.analysis.comparison import count_gains
from mtkit.evaluation.report.plots import (
    NUM_SERIES,
    WIDTH,
    choose_series,
    plot_gains,
    plot_lines,
    plot_rows,
    plot_scores,
    shorten,
)
from mtkit.evaluation.results import Interval, SystemResult, SystemScore


def system(name: str, value: float, *, higher_is_better: bool = True) -> SystemResult:
    interval = Interval(value - 1, value + 1)
    return SystemResult(name, (SystemScore("M", value, "", higher_is_better, interval),))


GROUPING = ScoresByBucket(
    "Length",
    "",
    True,
    (
        BucketScores("short", 1_000, {"a": {"M": 30.0}, "b": {"M": 20.0}}),
        BucketScores("long", 5, {"a": {"M": 10.0}, "b": {"M": 15.0}}),
    ),
)


def test_intervals_lie_about_their_points() -> None:
    plot = plot_scores([system("a", 20), system("b", 24)], "M", {"a": 0, "b": 1})
    for row in plot.rows:
        assert plot.left < row.low < row.marks[0].x < row.high < plot.right  # type: ignore[operator]
        assert row.marks[0].x == pytest.approx((row.low + row.high) / 2)  # type: ignore[operator]
    # Round values between 19 and 25, six points apart.
    assert [tick.label for tick in plot.ticks] == ["20", "22", "24"]


def test_a_system_alone_is_in_the_middle() -> None:
    [row] = plot_scores([SystemResult("a", (SystemScore("M", 0.0, ""),))], "M", {"a": 0}).rows
    plot = plot_scores([SystemResult("a", (SystemScore("M", 0.0, ""),))], "M", {"a": 0})
    assert row.marks[0].x == pytest.approx((plot.left + plot.right) / 2)
    assert row.low is None


@pytest.mark.parametrize(("higher_is_better", "best"), [(True, "s15"), (False, "s1")])
def test_the_baseline_and_the_best_stand_out(higher_is_better: bool, best: str) -> None:
    results = [
        system(f"s{value}", value, higher_is_better=higher_is_better)
        for value in (8, *range(1, 16))
    ][:16]
    series = choose_series(results)
    assert len(series) == NUM_SERIES
    assert list(series)[:2] == ["s8", best]


def test_higher_scores_are_higher_up() -> None:
    plot = plot_lines(GROUPING, "M", {"a": 0})
    other, baseline = plot.paths
    assert (other.series, baseline.series) == (-1, 0)
    assert baseline.marks[0].y < other.marks[0].y < other.marks[1].y < baseline.marks[1].y
    assert [column.note for column in plot.columns] == ["n=1,000", "n=5 (few)"]


def test_higher_scores_are_further_right() -> None:
    plot = plot_rows(GROUPING, "M", {"a": 0, "b": 1})
    above, below = plot.rows[0].marks
    assert (above.title, below.title) == ("b, short: 20.00", "a, short: 30.00")
    assert above.x < below.x
    # Apart, so that neither hides the other where both score alike.
    assert above.y != below.y


def test_bars_are_as_high_as_their_counts() -> None:
    plot = plot_gains(count_gains([-10.5, 0, 0, 5]))
    heights = [bar.height for bar in plot.bars]
    assert max(heights) == plot.bottom - plot.top
    assert sorted(heights)[-3:-1] == [max(heights) / 2] * 2
    assert {bar.side for bar in plot.bars if bar.height} == {-1, 0, 1}
    assert plot.middle == pytest.approx(WIDTH / 2)


def test_long_names_keep_their_ends() -> None:
    assert shorten("short") == "short"
    assert shorten("newstest2017.transformer-big.step-300") == "newstest2….step-300"
