"""Plots of an evaluation, as SVG inside a page.

A plot is 360 units wide, about as wide as a phone, so that its text is readable there. Its colours
are the page's, light and dark: matplotlib draws with placeholders for CSS variables.
"""

import io
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.markers import MarkerStyle
from matplotlib.patches import PathPatch
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.transforms import Affine2D

from mtkit.evaluation.analysis.analyze import ScoresByBucket
from mtkit.evaluation.analysis.comparison import MIN_RANGE, NICE_STEPS, SystemComparison
from mtkit.evaluation.results import SystemResult

WIDTH: Final = 360
NUM_SERIES: Final = 7
"""Number of systems with their own colour and marker: as many as colour-blind readers can tell
apart."""

_MARKERS = "os^DvPX"
_MARKER_SIZE = 8
_COLOURS = (
    *(f"s{index}" for index in range(NUM_SERIES)),
    "others",
    "ink",
    "quiet",
    "rule",
    "paper",
)
"""The page's CSS variables."""
_PLACEHOLDERS = {name: f"#fe01{index:02x}" for index, name in enumerate(_COLOURS)}
_INK, _QUIET, _RULE, _PAPER = (_PLACEHOLDERS[name] for name in ("ink", "quiet", "rule", "paper"))
_STYLE: dict[Any, Any] = {
    # A `matplotlibrc` in the current folder could enable LaTeX.
    "text.usetex": False,
    # A `$` in a name is a dollar sign.
    "text.parse_math": False,
    "text.color": _INK,
    # The page's font replaces it; this one only measures.
    "font.family": "DejaVu Sans",
    "font.size": 11.0,
    "svg.fonttype": "none",
    "axes.edgecolor": _QUIET,
    "axes.axisbelow": True,
    "grid.color": _RULE,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
}
_LABELS_END, _VALUES_START = 130, 294
"""The axis's start and end, between the names of rows and their notes."""
_ROW_HEIGHT, _AXIS_HEIGHT, _MARK_GAP = 24, 28, 2.5
_MAX_LABEL_CHARACTERS = 19
_NO_SERIES = -1
_FEW_SENTENCES = 30
"""With fewer sentences, one may change a corpus score by points."""


def choose_series(results: Sequence[SystemResult]) -> dict[str, int]:
    """Returns the systems that are highlighted in plots, numbered: the baseline and the best."""
    baseline, *others = results
    if len(results) > NUM_SERIES and baseline.scores:
        sign = -1 if baseline.scores[0].higher_is_better else 1
        others = sorted(others, key=lambda result: sign * result.scores[0].value)
    return {result.name: index for index, result in enumerate([baseline, *others][:NUM_SERIES])}


@mpl.rc_context(_STYLE)
def draw_marker(series: int) -> str:
    """Returns the marker of a highlighted system, or of the others: -1."""
    figure, axes = _open_figure(14, (0, 0, 14, 14), width=14)
    axes.set(xlim=(-7, 7), ylim=(-7, 7), xticks=[], yticks=[])
    # As a path: matplotlib's markers have an id, and a page may show this twice.
    marker = MarkerStyle(_MARKERS[max(0, series)])
    shape = marker.get_path().transformed(marker.get_transform())
    path = shape.transformed(Affine2D().scale(_MARKER_SIZE))
    axes.add_patch(PathPatch(path, facecolor=_colour(series), linewidth=0))
    return _as_svg(figure, 'aria-hidden="true"')


@mpl.rc_context(_STYLE)
def draw_scores(results: Sequence[SystemResult], metric: str, series: Mapping[str, int]) -> str:
    """Returns a plot of every system's score by a metric, with its interval."""
    scores = {
        result.name: score for result in results for score in result.scores if score.name == metric
    }
    figure, axes = _open_rows([(name, f"{score.value:.2f}") for name, score in scores.items()])
    values = []
    for row, (name, score) in enumerate(scores.items()):
        values.append(score.value)
        if score.interval is not None:
            ends = [score.interval.low, score.interval.high]
            values += ends
            axes.plot(ends, [row, row], "|-", color=_QUIET, markersize=8, linewidth=1.5)
        title = f"{name}: {score.value:.2f}"
        _mark(axes, score.value, row, series.get(name, _NO_SERIES), title)
    axes.set_xlim(_find_limits(values))
    return _as_plot(figure, f"{metric} of each system; the table above has the numbers")


@mpl.rc_context(_STYLE)
def draw_buckets(grouping: ScoresByBucket, metric: str, series: Mapping[str, int]) -> str:
    """Returns a plot of the systems' scores on each kind of sentence.

    Ordered kinds are columns, with a line per system; others are rows.
    """
    buckets = grouping.buckets
    notes = [_count_sentences(bucket.num_sentences) for bucket in buckets]
    if grouping.is_ordered:
        figure, axes = _open_columns([bucket.name for bucket in buckets], notes)
    else:
        names = [bucket.name for bucket in buckets]
        figure, axes = _open_rows(list(zip(names, notes, strict=True)))
    for system in dict.fromkeys(name for bucket in buckets for name in bucket.scores):
        own = series.get(system, _NO_SERIES)
        values = [bucket.scores[system].get(metric, math.nan) for bucket in buckets]
        if grouping.is_ordered:
            width = 1.0 if own == _NO_SERIES else 2.0 if own else 2.5
            axes.plot(values, color=_colour(own), linewidth=width, zorder=_height(own))
        # In a row, highlighted systems are slightly apart.
        gap = _MARK_GAP / _ROW_HEIGHT * (own - (len(series) - 1) / 2) if own != _NO_SERIES else 0
        for index, (bucket, value) in enumerate(zip(buckets, values, strict=True)):
            if math.isnan(value):
                continue
            title = f"{system}, {bucket.name}: {value:.2f}"
            if not grouping.is_ordered:
                _mark(axes, value, index + gap, own, title)
            elif own != _NO_SERIES:
                _mark(axes, index, value, own, title)
    scores = [each for bucket in buckets for each in bucket.scores.values()]
    limits = _find_limits([each[metric] for each in scores if metric in each])
    (axes.set_ylim if grouping.is_ordered else axes.set_xlim)(limits)
    label = f"{metric} by {grouping.name.lower()}; the tables below have the numbers"
    return _as_plot(figure, label)


@mpl.rc_context(_STYLE)
def draw_gains(comparison: SystemComparison) -> str:
    """Returns a histogram of a system's gains over the baseline."""
    edges, counts = comparison.gains.edges, comparison.gains.counts
    figure, axes = _open_figure(190, (14, 30, WIDTH - 14, 156))
    for index, count in enumerate(counts):
        low, high = edges[index : index + 2]
        side = (2 * index + 1 > len(counts)) - (2 * index + 1 < len(counts))
        if count:
            axes.bar(
                low,
                count,
                high - low,
                align="edge",
                color=_PLACEHOLDERS[{-1: "s0", 0: "others", 1: "s1"}[side]],
                edgecolor=_PAPER,
                gid=f"title:{_show_gain(low)} to {_show_gain(high)}: {count:,}",
            )
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, max(counts) or 1)
    # As high as the bars and slightly more.
    axes.axvline(0, -0.04, 1.06, color=_INK, linewidth=1, linestyle=(0, (3, 2)), clip_on=False)
    axes.set_yticks([])
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=NICE_STEPS))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda gain, _: _show_gain(round(gain, 9))))
    axes.spines["bottom"].set_visible(True)
    figure.text(14 / WIDTH, 1 - 14 / 190, f"◀ {shorten_name(comparison.baseline)} better")
    figure.text(
        1 - 14 / WIDTH, 1 - 14 / 190, f"{shorten_name(comparison.system)} better ▶", ha="right"
    )
    label = f"Gains by sentence: {comparison.num_won} above 0, {comparison.num_lost} below"
    return _as_plot(figure, label)


def shorten_name(name: str) -> str:
    """Returns a name that fits next to a plot: the start and end of a long one."""
    if len(name) <= _MAX_LABEL_CHARACTERS:
        return name
    half = (_MAX_LABEL_CHARACTERS - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


def _show_gain(gain: float) -> str:
    return f"{gain:+g}".replace("-", "\u2212") if gain else "0"


def _count_sentences(num_sentences: int) -> str:
    few = " (few)" if num_sentences < _FEW_SENTENCES else ""
    return f"n={num_sentences:,}{few}"


def _colour(series: int) -> str:
    return _PLACEHOLDERS["others" if series == _NO_SERIES else f"s{series}"]


def _height(series: int) -> int:
    """Returns the drawing order of systems: the baseline is on top."""
    return 3 if series == _NO_SERIES else 3 + NUM_SERIES - series


def _find_limits(values: Sequence[float]) -> tuple[float, float]:
    """Returns the limits of an axis with all values and some margin."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    # A single value, or nearly equal ones, are in the middle.
    margin = 0.06 * (high - low) if high - low > MIN_RANGE else 1.0
    return low - margin, high + margin


def _mark(axes: Axes, x: float, y: float, series: int, title: str = "") -> None:
    """Draws a system's value, with its title as a tooltip."""
    axes.plot(
        [x],
        [y],
        _MARKERS[max(0, series)],
        color=_colour(series),
        markeredgecolor=_PAPER,
        markeredgewidth=0.75,
        markersize=_MARKER_SIZE,
        zorder=_height(series),
        gid=f"title:{title}" if title else None,
    )


def _open_figure(
    height: float, box: tuple[float, float, float, float], *, width: float = WIDTH
) -> tuple[Figure, Axes]:
    """Returns a figure with axes in a box: left, top, right and bottom, from the top."""
    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    FigureCanvasSVG(figure)
    left, top, right, bottom = box
    axes = figure.add_axes(
        (left / width, 1 - bottom / height, (right - left) / width, (bottom - top) / height)
    )
    for patch in (figure.patch, axes.patch, *axes.spines.values()):
        patch.set_visible(False)
    axes.tick_params(length=0, pad=4)
    return figure, axes


def _open_rows(rows: Sequence[tuple[str, str]]) -> tuple[Figure, Axes]:
    """Returns a figure with names on its left and notes on its right; the first is 0."""
    bottom = _ROW_HEIGHT * len(rows)
    box = (_LABELS_END, 0, _VALUES_START, bottom)
    figure, axes = _open_figure(bottom + _AXIS_HEIGHT, box)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks([])
    axes.grid(axis="x")
    axes.spines["bottom"].set_visible(True)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=NICE_STEPS))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for row, (name, note) in enumerate(rows):
        middle = 1 - (row + 0.5) * _ROW_HEIGHT / (bottom + _AXIS_HEIGHT)
        figure.text(0, middle, shorten_name(name), va="center", gid=f"title:{name}")
        figure.text(1, middle, note, va="center", ha="right")
    return figure, axes


def _open_columns(names: Sequence[str], notes: Sequence[str]) -> tuple[Figure, Axes]:
    """Returns a figure with names and notes along its bottom; the first is 0."""
    figure, axes = _open_figure(230, (40, 12, 346, 188))
    axes.set_xlim(-0.5, max(1, len(names)) - 0.5)
    axes.set_xticks(range(len(names)), names)
    for column, note in enumerate(notes):
        axes.annotate(
            note,
            (column, 0),
            (0, -32),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            ha="center",
            color=_QUIET,
            size=9.5,
        )
    axes.grid(axis="y")
    axes.spines["bottom"].set_visible(True)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=NICE_STEPS))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    return figure, axes


def _as_plot(figure: Figure, label: str) -> str:
    return _as_svg(figure, f'class="plot" role="img" aria-label="{escape(label)}"')


def _as_svg(figure: Figure, attributes: str) -> str:
    """Returns a figure as an HTML element, with titles, and with CSS variables as colours."""
    # `attributes` are the element's; no two plots with marks in a page may share them.
    for axes in figure.axes:
        for artist in axes.findobj():
            # A clip path is an `url(...)`, which the page doesn't have.
            artist.set_clip_on(False)
    picture = io.StringIO()
    nameless = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with warnings.catch_warnings(), mpl.rc_context({"svg.hashsalt": attributes}):
        # The browser has fonts for scripts that matplotlib's lacks.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure.savefig(picture, format="svg", metadata=nameless)
    width, height = (72 * inches for inches in figure.get_size_inches())
    drawn = re.sub(r".*?<svg.*?>", "", picture.getvalue(), count=1, flags=re.DOTALL)
    drawn = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>|<!--.*?-->", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r'<g id="title:([^"]*)">', r"<g><title>\1</title>", drawn)
    drawn = re.sub(r'<g id="[^"]*"(/?)>', r"<g\1>", drawn)
    for name, stand_in in _PLACEHOLDERS.items():
        drawn = re.sub(rf"(fill|stroke): {stand_in}\b", rf"\1: var(--{name})", drawn)
    drawn = re.sub(r"\s*\n\s*", "\n", drawn)
    return f'<svg viewBox="0 0 {width:g} {height:g}" {attributes}>{drawn}'
