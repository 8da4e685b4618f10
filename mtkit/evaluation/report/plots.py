"""Where points, lines and bars of plots lie; templates draw them.

A plot is 360 units wide, about as wide as a phone, so that its text can be read there; units are
SVG's, with the origin in the upper left corner.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mtkit.evaluation.analysis.analyze import ScoresByBucket
from mtkit.evaluation.analysis.comparison import Histogram
from mtkit.evaluation.results import SystemResult

WIDTH = 360
NUM_SERIES = 7
"""Systems with a colour and a marker of their own: as many as the colour-blind tell apart."""
MARKERS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.5-3.5h7v7h-7z",
    "M0-4.5l4.5 8h-9z",
    "M0-5l5 5-5 5-5-5z",
    "M0 4.5l4.5-8h-9z",
    "M-1.3-4.5h2.6v3.2h3.2v2.6h-3.2v3.2h-2.6v-3.2h-3.2v-2.6h3.2z",
    "M0-2l2.5-2.5 2 2-2.5 2.5 2.5 2.5-2 2-2.5-2.5-2.5 2.5-2-2 2.5-2.5-2.5-2.5 2-2z",
)
"""Circle, square, triangle, diamond, triangle that points down, plus and cross, about a point."""

_LABELS_END, _VALUES_START = 122, 302
_ROW_HEIGHT, _AXIS_HEIGHT, _MARK_GAP = 24, 28, 2.5
_PLOT_HEIGHT, _PLOT_TOP, _PLOT_LEFT, _PLOT_RIGHT = 230, 12, 40, 346
_HISTOGRAM_HEIGHT = 190
_MIN_RANGE = 0.01
"""Percentage points: scores are shown with two decimals."""
_NICE_STEPS = (1, 2, 2.5, 5, 10)
_MAX_LABEL_CHARACTERS = 19
_NO_SERIES = -1
_FEW_SENTENCES = 30
"""Below so many, one sentence may move a corpus score by points."""


@dataclass(frozen=True)
class Tick:
    """A place on an axis, with what is written there."""

    position: float
    label: str


@dataclass(frozen=True)
class Mark:
    """A system's value; `series` is its place among the systems that stand out, or -1."""

    x: float
    y: float
    series: int
    title: str


@dataclass(frozen=True)
class Row:
    """A line of a plot that has names down its side.

    Attributes:
        name: What the row is about.
        label: The name, shortened if it's long.
        note: Written at the right.
        y: Middle of the row.
        marks: Its values.
        low: Where its interval begins; None where it has none.
        high: Where it ends.
    """

    name: str
    label: str
    note: str
    y: float
    marks: tuple[Mark, ...]
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class RowPlot:
    """Values side by side, a row per system or per kind of sentence."""

    height: float
    left: float
    right: float
    bottom: float
    ticks: tuple[Tick, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Path:
    """A system's values joined by a line; `points` as SVG's polyline takes them."""

    series: int
    points: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Column:
    """A kind of sentences on the horizontal axis."""

    x: float
    label: str
    note: str


@dataclass(frozen=True)
class LinePlot:
    """Values that rise or fall from one kind of sentence to the next, a line per system."""

    height: float
    left: float
    right: float
    top: float
    bottom: float
    ticks: tuple[Tick, ...]
    columns: tuple[Column, ...]
    paths: tuple[Path, ...]


@dataclass(frozen=True)
class Bar:
    """A bin of a histogram; `side` is where its gains are: -1, 0 or 1."""

    x: float
    y: float
    width: float
    height: float
    side: int
    title: str


@dataclass(frozen=True)
class BarPlot:
    """How gains are spread."""

    height: float
    left: float
    right: float
    top: float
    bottom: float
    middle: float
    ticks: tuple[Tick, ...]
    bars: tuple[Bar, ...]


def choose_series(results: Sequence[SystemResult]) -> dict[str, int]:
    """Returns the systems that stand out in plots, with their places: the baseline and the best."""
    baseline, *others = results
    if len(results) > NUM_SERIES and baseline.scores:
        sign = -1 if baseline.scores[0].higher_is_better else 1
        others = sorted(others, key=lambda result: sign * result.scores[0].value)
    return {result.name: place for place, result in enumerate([baseline, *others][:NUM_SERIES])}


def plot_scores(results: Sequence[SystemResult], metric: str, series: Mapping[str, int]) -> RowPlot:
    """Returns every system's score by a metric, with its interval."""
    scores = {
        result.name: score for result in results for score in result.scores if score.name == metric
    }
    values = [score.value for score in scores.values()]
    for score in scores.values():
        if score.interval is not None:
            values += [score.interval.low, score.interval.high]
    axis = _Axis.around(values, _LABELS_END + 8, _VALUES_START - 8)
    rows = []
    for place, (name, score) in enumerate(scores.items()):
        y = (place + 0.5) * _ROW_HEIGHT
        note = f"{score.value:.2f}"
        mark = Mark(axis.place(score.value), y, series.get(name, _NO_SERIES), f"{name}: {note}")
        interval = score.interval
        rows.append(
            Row(
                name,
                shorten(name),
                note,
                y,
                (mark,),
                None if interval is None else axis.place(interval.low),
                None if interval is None else axis.place(interval.high),
            )
        )
    return _row_plot(axis, rows)


def plot_rows(grouping: ScoresByBucket, metric: str, series: Mapping[str, int]) -> RowPlot:
    """Returns what systems score on each kind of sentence, a row per kind."""
    values = [scores[metric] for bucket in grouping.buckets for scores in bucket.scores.values()]
    axis = _Axis.around(values, _LABELS_END + 8, _VALUES_START - 8)
    rows = []
    for place, bucket in enumerate(grouping.buckets):
        y = (place + 0.5) * _ROW_HEIGHT
        marks = [
            Mark(
                axis.place(scores[metric]),
                y,
                series.get(system, _NO_SERIES),
                f"{system}, {bucket.name}: {scores[metric]:.2f}",
            )
            for system, scores in bucket.scores.items()
        ]
        note = _count_sentences(bucket.num_sentences)
        rows.append(Row(bucket.name, shorten(bucket.name), note, y, _spread(marks)))
    return _row_plot(axis, rows)


def plot_lines(grouping: ScoresByBucket, metric: str, series: Mapping[str, int]) -> LinePlot:
    """Returns what systems score on each kind of sentence, a line per system."""
    values = [scores[metric] for bucket in grouping.buckets for scores in bucket.scores.values()]
    bottom = _PLOT_HEIGHT - 42
    axis = _Axis.around(values, bottom, _PLOT_TOP)
    step = (_PLOT_RIGHT - _PLOT_LEFT) / max(1, len(grouping.buckets))
    columns = [
        Column(
            _PLOT_LEFT + (place + 0.5) * step, bucket.name, _count_sentences(bucket.num_sentences)
        )
        for place, bucket in enumerate(grouping.buckets)
    ]
    systems = dict.fromkeys(name for bucket in grouping.buckets for name in bucket.scores)
    paths = []
    for system in systems:
        marks = tuple(
            Mark(
                column.x,
                axis.place(bucket.scores[system][metric]),
                series.get(system, _NO_SERIES),
                f"{system}, {bucket.name}: {bucket.scores[system][metric]:.2f}",
            )
            for column, bucket in zip(columns, grouping.buckets, strict=True)
        )
        points = " ".join(f"{mark.x:.1f},{mark.y:.1f}" for mark in marks)
        paths.append(Path(series.get(system, _NO_SERIES), points, marks))
    return LinePlot(
        height=_PLOT_HEIGHT,
        left=_PLOT_LEFT,
        right=_PLOT_RIGHT,
        top=_PLOT_TOP,
        bottom=bottom,
        ticks=axis.ticks,
        columns=tuple(columns),
        # Those that stand out lie above the others, the baseline above all.
        paths=tuple(sorted(paths, key=lambda path: (path.series != _NO_SERIES, -path.series))),
    )


def plot_gains(histogram: Histogram) -> BarPlot:
    """Returns how a system's gains over the baseline are spread."""
    left, right, top, bottom = 14, WIDTH - 14, 30, _HISTOGRAM_HEIGHT - 34
    edges = histogram.edges
    scale = (right - left) / (edges[-1] - edges[0])
    most = max(histogram.counts) or 1
    middle_bin = len(histogram.counts) // 2
    bars = []
    for place, count in enumerate(histogram.counts):
        height = count / most * (bottom - top)
        bars.append(
            Bar(
                x=left + (edges[place] - edges[0]) * scale,
                y=bottom - height,
                width=(edges[place + 1] - edges[place]) * scale,
                height=height,
                side=(place > middle_bin) - (place < middle_bin),
                title=f"{_show_gain(edges[place])} to {_show_gain(edges[place + 1])}: {count:,}",
            )
        )
    ticks = _list_ticks(edges[0], edges[-1], 6)
    return BarPlot(
        height=_HISTOGRAM_HEIGHT,
        left=left,
        right=right,
        top=top,
        bottom=bottom,
        middle=left - edges[0] * scale,
        ticks=tuple(Tick(left + (value - edges[0]) * scale, _show_gain(value)) for value in ticks),
        bars=tuple(bars),
    )


def _show_gain(gain: float) -> str:
    return f"{gain:+g}".replace("-", "\u2212") if gain else "0"


def _count_sentences(num_sentences: int) -> str:
    few = " (few)" if num_sentences < _FEW_SENTENCES else ""
    return f"n={num_sentences:,}{few}"


def shorten(name: str) -> str:
    """Returns a name that fits beside a plot: of a long one, its beginning and its end."""
    if len(name) <= _MAX_LABEL_CHARACTERS:
        return name
    half = (_MAX_LABEL_CHARACTERS - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


@dataclass(frozen=True)
class _Axis:
    """Values from `low` to `high` between two places."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def around(cls, values: Sequence[float], start: float, end: float) -> "_Axis":
        """Returns an axis that holds all values, with some room about them."""
        low, high = min(values, default=0.0), max(values, default=1.0)
        # One value, or as good as one, has its point in the middle.
        margin = 0.06 * (high - low) if high - low > _MIN_RANGE else 1.0
        return cls(low - margin, high + margin, start, end)

    def place(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    @property
    def ticks(self) -> tuple[Tick, ...]:
        return tuple(
            Tick(self.place(value), f"{value:g}") for value in _list_ticks(self.low, self.high, 5)
        )


def _list_ticks(low: float, high: float, most: int) -> list[float]:
    """Returns round values between two others."""
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(
        nice * power for nice in (*_NICE_STEPS, 20) if (high - low) / (nice * power) <= most
    )
    first = math.ceil(low / step)
    return [round(place * step, 9) for place in range(first, math.floor(high / step) + 1)]


def _row_plot(axis: _Axis, rows: Sequence[Row]) -> RowPlot:
    bottom = _ROW_HEIGHT * len(rows)
    return RowPlot(bottom + _AXIS_HEIGHT, axis.start, axis.end, bottom, axis.ticks, tuple(rows))


def _spread(marks: Sequence[Mark]) -> tuple[Mark, ...]:
    """Returns a row's marks with those that stand out a little apart, and above the others."""
    num_series = max((mark.series for mark in marks), default=0) + 1
    return tuple(
        replace(mark, y=mark.y + _MARK_GAP * (mark.series - (num_series - 1) / 2))
        if mark.series != _NO_SERIES
        else mark
        for mark in sorted(marks, key=lambda mark: (mark.series != _NO_SERIES, -mark.series))
    )
