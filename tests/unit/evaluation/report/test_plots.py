"""Where a browser finds a plot's points, lines and bars: its SVG is read as XML."""

import operator
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from mtkit.evaluation.analysis.analyze import BucketScores, ScoresByBucket
from mtkit.evaluation.analysis.comparison import SystemComparison, count_gains
from mtkit.evaluation.report.plots import (
    NUM_SERIES,
    WIDTH,
    choose_series,
    draw_buckets,
    draw_gains,
    draw_marker,
    draw_scores,
    shorten_name,
)
from mtkit.evaluation.results import Interval, SystemResult, SystemScore

BUCKETS = (
    BucketScores("short", 1_000, {"a": {"M": 30.0}, "b": {"M": 20.0}}),
    BucketScores("long", 5, {"a": {"M": 10.0}, "b": {"M": 15.0}}),
)


def system(name: str, value: float, *, higher_is_better: bool = True) -> SystemResult:
    interval = Interval(value - 1, value + 1)
    return SystemResult(name, (SystemScore("M", value, "", higher_is_better, interval),))


class Plot:
    """A plot's parts.

    Attributes:
        marks: Center of each mark by its title.
        bars: Left, top, right and bottom of each bar by its title.
        fills: What each titled part is filled with.
        texts: All that is written.
        paths: Points of each line and interval that a mark isn't.
    """

    def __init__(self, svg: str) -> None:
        root = ElementTree.fromstring(svg.replace("<svg ", '<svg xmlns:xlink="x" ', 1))
        self.marks: dict[str, tuple[float, float]] = {}
        self.bars: dict[str, tuple[float, float, float, float]] = {}
        self.fills: dict[str, str] = {}
        self.texts = [text.text for text in root.iter("text")]
        for group in root.iter("g"):
            title = group.find("title")
            if title is None or not title.text:
                continue
            for use in group.iter("use"):
                self.marks[title.text] = (float(use.get("x", "")), float(use.get("y", "")))
            for part in (*group.iter("use"), *group.findall("path")):
                self.fills[title.text] = part.get("style", "").partition("fill: ")[2].split(";")[0]
            for path in group.findall("path"):
                points = list_points(path)
                (left, right), (top, bottom) = (
                    (min(each), max(each)) for each in zip(*points, strict=True)
                )
                self.bars[title.text] = left, top, right, bottom
        self.paths = [
            list_points(path) for path in root.iter("path") if "fill: none" in path.get("style", "")
        ]


def list_points(path: ElementTree.Element) -> list[tuple[float, float]]:
    found = re.findall(r"[ML] ([-\d.]+) ([-\d.]+)", path.get("d", ""))
    return [(float(x), float(y)) for x, y in found]


def test_intervals_lie_about_their_points() -> None:
    plot = Plot(draw_scores([system("a", 20), system("b", 24)], "M", {"a": 0, "b": 1}))
    for title in ("a: 20.00", "b: 24.00"):
        x, y = plot.marks[title]
        [interval] = [path for path in plot.paths if path[0][1] == path[1][1] == y]
        assert sum(end for end, _ in interval) / 2 == pytest.approx(x, abs=1e-4)
        assert 0 < interval[0][0] < x < interval[1][0] < WIDTH
    # Round values between 19 and 25, six points apart, below the names and scores of the rows.
    assert [text for text in plot.texts if text and "." not in text] == ["20", "22", "24", "a", "b"]
    # A gain of 4 points, between ticks that are 2 points apart.
    ticks = sorted({path[0][0] for path in plot.paths if path[0][0] == path[1][0]})
    gain = plot.marks["b: 24.00"][0] - plot.marks["a: 20.00"][0]
    assert gain == pytest.approx(ticks[2] - ticks[0], abs=1e-4)


def test_a_system_alone_is_in_the_middle() -> None:
    plot = Plot(draw_scores([SystemResult("a", (SystemScore("M", 0.0, ""),))], "M", {"a": 0}))
    [axis] = [path for path in plot.paths if path[0][1] == path[1][1]]
    assert plot.marks["a: 0.00"][0] == pytest.approx((axis[0][0] + axis[1][0]) / 2)


@pytest.mark.parametrize(("higher_is_better", "best"), [(True, "s15"), (False, "s1")])
def test_the_baseline_and_the_best_stand_out(higher_is_better: bool, best: str) -> None:
    results = [
        system(f"s{value}", value, higher_is_better=higher_is_better)
        for value in (8, *range(1, 16))
    ][:16]
    series = choose_series(results)
    assert len(series) == NUM_SERIES
    assert list(series)[:2] == ["s8", best]
    fills = Plot(draw_scores(results, "M", series)).fills
    assert (fills["s8: 8.00"], fills[f"{best}: {best[1:]}.00"]) == ("var(--s0)", "var(--s1)")
    assert list(fills.values()).count("var(--others)") == 15 - NUM_SERIES


def test_higher_scores_are_higher_up() -> None:
    plot = Plot(draw_buckets(ScoresByBucket("Length", "", True, BUCKETS), "M", {"a": 0}))
    # The other system has a line without marks.
    assert list(plot.marks) == ["a, short: 30.00", "a, long: 10.00"]
    # Neither across nor upright, as the axis and its grid are.
    other, baseline = (path for path in plot.paths if all(map(operator.ne, path[0], path[1])))
    assert baseline == [pytest.approx(each, abs=1e-4) for each in plot.marks.values()]
    assert baseline[0][1] < other[0][1] < other[1][1] < baseline[1][1]
    assert {"short", "n=1,000", "long", "n=5 (few)"} <= set(plot.texts)


def test_higher_scores_are_further_right() -> None:
    grouping = ScoresByBucket("Origin", "", False, BUCKETS)
    plot = Plot(draw_buckets(grouping, "M", {"a": 0, "b": 1}))
    marks = {title: plot.marks[title] for title in ("b, short: 20.00", "a, short: 30.00")}
    (x_b, y_b), (x_a, y_a) = marks.values()
    assert x_b < x_a
    # Apart, so that neither hides the other where both score alike.
    assert 2 < abs(y_a - y_b) < 4


def test_bars_are_as_high_as_their_counts() -> None:
    gains = count_gains([-10.5, 0, 0, 5])
    plot = Plot(draw_gains(SystemComparison("b", "a", "M", True, 1, 1, 2, gains, (), ())))
    heights = {title: bottom - top for title, (_, top, _, bottom) in plot.bars.items()}
    assert len(heights) == 3
    for title, height in heights.items():
        assert height / max(heights.values()) == pytest.approx(int(title[-1]) / 2, abs=1e-4)
    in_order = sorted(plot.bars, key=lambda title: plot.bars[title])
    assert [plot.fills[title] for title in in_order] == [
        "var(--s0)",
        "var(--others)",
        "var(--s1)",
    ]
    left, _, right, _ = plot.bars[in_order[1]]
    assert (left + right) / 2 == pytest.approx(WIDTH / 2)
    assert {"◀ a better", "b better ▶", "0"} <= set(plot.texts)


def test_every_system_has_a_colour_and_a_shape_of_its_own() -> None:
    drawn = [draw_marker(series) for series in range(NUM_SERIES)]
    shapes = {re.sub(r"var\(--\w+\)", "", marker) for marker in drawn}
    assert len(shapes) == NUM_SERIES
    assert [f"var(--s{series})" in marker for series, marker in enumerate(drawn)] == [True] * 7
    # Those that don't stand out are circles too, in grey.
    assert draw_marker(-1).replace("others", "s0") == drawn[0]


def test_names_are_text_in_any_script() -> None:
    names = ["$a$ <b>", "系统", "#fe0100"]
    results = [system(name, 20 + index) for index, name in enumerate(names)]
    plot = Plot(draw_scores(results, "M", choose_series(results)))
    assert set(names) <= set(plot.texts)
    assert f"{names[1]}: 21.00" in plot.marks


def test_long_names_keep_their_ends() -> None:
    assert shorten_name("short") == "short"
    assert shorten_name("newstest2017.transformer-big.step-300") == "newstest2….step-300"


def test_matplotlib_is_loaded_for_a_page_alone() -> None:
    code = "import sys, mtkit.pipeline.score_report; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
