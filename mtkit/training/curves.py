"""Training curves: loss, development scores, learning rate and speed by step."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from mtkit.files import writing_atomically
from mtkit.training.metrics import LABELS, MetricsLine, describe_length, list_scores, number

# Okabe and Ito's colours, which colour-blind readers can tell apart.
_TRAINING, _DEVELOPMENT, _SCORE = "#0072B2", "#D55E00", "#009E73"
_OTHER_SCORES = ("#CC79A7", "#56B4E9", "#E69F00", "#000000")
_SPEED, _EVENT, _WARM_UP = "#999999", "#555555", "#F0E442"
_EVENT_MARKERS = ("^", "D", "s", "o", "v", "P")
_OTHER_EVENTS = "other events"
_MAX_NLL = 50.0
"""With larger losses no perplexities are shown."""
_MANY_POINTS = 60
"""Minimum number of points for a smoothed line without markers."""
_MAX_LINES = 12
"""Maximum number of events that each get a line through all panels."""
_EARLY = 0.05
"""Share of the steps that count as early: losses fall and scores rise steeply there."""
_STYLE: dict[Any, Any] = {
    # A `matplotlibrc` in the current folder could enable LaTeX.
    "text.usetex": False,
    # A `$` in a name is a dollar sign.
    "text.parse_math": False,
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.borderaxespad": 0.1,
    "legend.columnspacing": 1.5,
}
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """One metric by step; NaN if missing, NaN or infinite."""

    steps: Numbers
    values: Numbers

    @classmethod
    def of(cls, lines: Sequence[MetricsLine], key: str) -> "Series":
        """Returns the numbers under a key."""
        numbers = (number(line, key) for line in lines)
        values = [math.nan if value is None else value for value in numbers]
        return cls(
            np.array([line["step"] for line in lines], dtype=np.float64),
            np.array(values, dtype=np.float64),
        )

    @property
    def is_empty(self) -> bool:
        """Whether all values are NaN."""
        return not bool(np.isfinite(self.values).any())

    def smoothed(self) -> "Series":
        """Returns the mean over 1/25 of the points around each, without NaN."""
        width = max(1, len(self.values) // 50)
        window = np.ones(2 * width + 1)
        is_number = np.isfinite(self.values)
        counts = np.convolve(is_number, window, mode="same")
        sums = np.convolve(np.where(is_number, self.values, 0.0), window, mode="same")
        means = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
        return Series(self.steps, means)

    def later(self) -> Numbers:
        """Returns the values after the early steps; all values if there are few."""
        is_number = np.isfinite(self.values)
        if len(self.steps) >= 10:
            first, last = self.steps.min(), self.steps.max()
            is_late = is_number & (self.steps > first + _EARLY * (last - first))
            is_number = is_late if is_late.any() else is_number
        return self.values[is_number]


def group_events(events: Sequence[MetricsLine], max_kinds: int) -> list[tuple[str, list[int]]]:
    """Returns events by kind, in words, and their steps.

    Texts that differ only in numbers are one kind; kinds beyond `max_kinds` are merged.
    """
    kinds: dict[str, list[MetricsLine]] = {}
    for event in events:
        kind = re.sub(r"\d[\d,.]*\d|\d", "…", str(event["text"]))
        if kind not in kinds and len(kinds) + 1 >= max_kinds:
            kind = _OTHER_EVENTS
        kinds.setdefault(kind, []).append(event)
    named = []
    for kind, alike in kinds.items():
        texts = {str(event["text"]) for event in alike}
        text = texts.pop() if len(texts) == 1 else kind
        text = text if len(text) <= 46 else text[:45] + "…"
        steps = sorted({int(event["step"]) for event in alike})
        listed = (
            ", ".join(f"{step:,}" for step in steps)
            if len(steps) <= 2
            else f"{steps[0]:,} to {steps[-1]:,}"
        )
        count = f"{len(alike):,} × " if len(alike) > 1 else ""
        named.append((f"{count}{text} ({listed})", steps))
    return named


def draw_curves(
    metrics: Sequence[MetricsLine],
    path: Path,
    *,
    title: str,
    warm_up_steps: int = 0,
    score: str = "bleu",
) -> None:
    """Draws the curves of a training to a `.png` or `.svg` file, atomically.

    Args:
        metrics: Lines of the metrics file.
        path: The picture.
        title: The run's name.
        warm_up_steps: Steps in which the learning rate rises; shaded.
        score: The score that ranks checkpoints, by its name in a `dev` line; its best is marked.
    """
    with mpl.rc_context(_STYLE), writing_atomically(path) as stream:
        figure = _build_figure(metrics, title, warm_up_steps, score)
        figure.savefig(stream, dpi=130, format=path.suffix[1:])


def _build_figure(
    metrics: Sequence[MetricsLine], title: str, warm_up_steps: int, score: str
) -> Figure:
    train, dev, events = (
        [line for line in metrics if line["kind"] == kind] for kind in ("train", "dev", "event")
    )
    scores = list_scores(dev, score)
    rate, speed = (Series.of(train, key) for key in ("learning_rate", "target_tokens_per_second"))
    has_rates = not (rate.is_empty and speed.is_empty)
    heights = [3.2, *([2.4] if scores else []), *([1.4] if has_rates else [])]
    figure = Figure(figsize=(9.0, sum(heights) + 2.5), layout=ConstrainedLayoutEngine(hspace=0.03))
    figure.suptitle(f"{title}\n{describe_length(metrics)}", x=0.01, ha="left", fontsize=11.0)
    grid = figure.subplots(len(heights), sharex=True, squeeze=False, height_ratios=heights)
    panels = list(grid[:, 0])
    _draw_losses(panels[0], Series.of(train, "nll"), Series.of(dev, "nll"))
    if scores:
        _draw_scores(panels[1], dev, scores)
    if has_rates:
        _draw_rates(panels[-1], rate, speed)
    last_step = max((line["step"] for line in metrics), default=0)
    if warm_up_steps > 0 and last_step > 0:
        for panel in panels:
            # The legend entry goes to the panel of the learning rate.
            label = f"warm-up, to step {warm_up_steps:,}" if panel is panels[-1] else None
            end = min(warm_up_steps, 2 * last_step)
            panel.axvspan(0, end, color=_WARM_UP, alpha=0.2, zorder=0, label=label)
    _mark_best(panels, panels[1] if score in scores else panels[0], dev, score)
    for panel in panels:
        _place_legend(panel)
    _mark_events(figure, panels, group_events(events, len(_EVENT_MARKERS)))
    panels[-1].set_xlabel("step")
    panels[-1].set_xlim(0, max(last_step, 1) * 1.01)
    panels[-1].xaxis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 2.5, 5, 10]))
    panels[-1].xaxis.set_major_formatter("{x:,.0f}")
    figure.align_ylabels(panels)
    return figure


def _draw_losses(panel: Axes, training: Series, development: Series) -> None:
    """Draws losses, with perplexities, their exponentials, on the right."""
    if training.is_empty and development.is_empty:
        panel.text(0.5, 0.5, "nothing measured yet", transform=panel.transAxes, ha="center")
    _draw_line(panel, training, "training", _TRAINING, is_noisy=True)
    _draw_line(panel, development, "development", _DEVELOPMENT)
    _limit(panel, training, development)
    panel.set_ylabel("negative log-likelihood\n(nats per target token)")
    low, high = panel.get_ylim()
    if high > _MAX_NLL:
        return
    right = panel.secondary_yaxis(
        "right",
        functions=(np.exp, lambda perplexity: np.log(np.maximum(perplexity, 1e-9))),
    )
    right.set_ylabel("perplexity")
    right.yaxis.set_major_locator(
        MaxNLocator(6)
        if high - low < 1.5
        else LogLocator(subs=(1.0, 2.0, 5.0) if high - low < 7.0 else (1.0,), numticks=9)
    )
    right.yaxis.set_minor_locator(NullLocator())
    right.yaxis.set_major_formatter("{x:,.4g}")


def _add_right_axis(panel: Axes, label: str) -> Axes:
    """Returns a second axis on the right, drawn below the left one."""
    right = panel.twinx()
    right.grid(visible=False)
    right.set_ylabel(label)
    panel.set_zorder(right.get_zorder() + 1)
    panel.patch.set_visible(False)
    return right


def _draw_scores(panel: Axes, dev: Sequence[MetricsLine], scores: Sequence[str]) -> None:
    """Draws the first score on the left axis, the others on the right one."""
    ranking, *others = scores
    series, label = Series.of(dev, ranking), LABELS.get(ranking, ranking)
    _draw_line(panel, series, label, _SCORE)
    _limit(panel, series)
    panel.set_ylabel(f"development {label}")
    if not others:
        return
    right = _add_right_axis(panel, ", ".join(LABELS.get(name, name) for name in others))
    for name, colour in zip(others, cycle(_OTHER_SCORES)):
        _draw_line(
            right, Series.of(dev, name), f"{LABELS.get(name, name)} (right)", colour, style="--"
        )
    _limit(right, *(Series.of(dev, name) for name in others))
    # Scores rise and fall together; room above keeps these apart from the first.
    low, high = right.get_ylim()
    right.set_ylim(low, high + 0.25 * (high - low))


def _draw_rates(panel: Axes, rate: Series, speed: Series) -> None:
    _draw_line(panel, rate, "learning rate", _TRAINING)
    panel.set_ylabel("learning rate")
    panel.set_ylim(bottom=0.0)
    panel.yaxis.set_major_locator(MaxNLocator(4))
    panel.yaxis.set_major_formatter("{x:g}")
    if not speed.is_empty:
        right = _add_right_axis(panel, "target tokens/s")
        _draw_line(right, speed, "target tokens/s (right)", _SPEED, is_noisy=True)
        right.set_ylim(0.0, 1.2 * float(np.quantile(speed.later(), 0.99)))
        right.yaxis.set_major_locator(MaxNLocator(4))
        right.yaxis.set_major_formatter("{x:,.0f}")


def _draw_line(
    axes: Axes,
    series: Series,
    label: str,
    colour: str,
    *,
    style: str = "-",
    is_noisy: bool = False,
) -> None:
    """Draws a line; for a noisy one with many points, faintly and with its running mean."""
    if series.is_empty:
        return
    has_many = len(series.steps) >= _MANY_POINTS
    if is_noisy and has_many:
        axes.plot(series.steps, series.values, color=colour, alpha=0.25, linewidth=0.8)
        series = series.smoothed()
    axes.plot(
        series.steps,
        series.values,
        linestyle=style,
        marker="" if has_many else "o",
        markersize=3.0,
        color=colour,
        label=label,
    )


def _limit(axes: Axes, *series: Series) -> None:
    """Sets the axis limits from the values after the early steps; a spike may leave them."""
    later = [numbers.later() for numbers in series if not numbers.is_empty]
    if later:
        low = min(float(numbers.min()) for numbers in later)
        high = max(float(np.quantile(numbers, 0.99)) for numbers in later)
        low, high = min(low, high), max(low, high)
        margin = 0.07 * (high - low) or 0.5
        # Only other objectives' scores can be negative.
        axes.set_ylim(max(low - margin, min(low, 0.0)), high + margin)


def _mark_best(panels: Sequence[Axes], panel: Axes, dev: Sequence[MetricsLine], score: str) -> None:
    measured = [(value, line) for line in dev if (value := number(line, score)) is not None]
    if not measured:
        return
    sign = -1.0 if score == "loss" else 1.0
    value, best = max(measured, key=lambda pair: (sign * pair[0], pair[1]["step"]))
    # The panel of losses shows only the likelihood.
    height = number(best, "nll") if score == "loss" else value
    digits, colour = (3, _DEVELOPMENT) if score == "loss" else (2, _SCORE)
    for other in panels:
        other.axvline(best["step"], color=colour, linewidth=1.0, alpha=0.6, zorder=1)
    if height is not None:
        name = LABELS.get(score, score)
        panel.plot(
            [best["step"]],
            [height],
            "*",
            color="#000000",
            markersize=11,
            zorder=5,
            clip_on=False,
            label=f"best: {name} {value:.{digits}f} at step {best['step']:,}",
        )


def _mark_events(
    figure: Figure, panels: Sequence[Axes], kinds: Sequence[tuple[str, Sequence[int]]]
) -> None:
    """Marks events at the bottom of the first panel and names each kind once."""
    has_few = sum(len(steps) for _, steps in kinds) <= _MAX_LINES
    markers = []
    for marker, (_, steps) in zip(_EVENT_MARKERS, kinds, strict=False):
        markers += panels[0].plot(
            steps,
            [0.0] * len(steps),
            marker,
            transform=panels[0].get_xaxis_transform(),
            color=_EVENT,
            markersize=5,
            clip_on=False,
            zorder=4,
        )
        for panel in panels:
            for step in steps if has_few else ():
                panel.axvline(step, color=_EVENT, linewidth=0.7, alpha=0.5, linestyle=":")
    if markers:
        figure.legend(
            markers,
            [name for name, _ in kinds],
            loc="outside lower left",
            ncols=2,
            labelcolor=_EVENT,
            fontsize=8,
        )


def _place_legend(panel: Axes) -> None:
    """Places the legend, including the right axis, above the panel, outside all lines."""
    named: dict[str, Any] = {}
    for axes in panel.figure.axes:
        if axes.get_subplotspec() == panel.get_subplotspec():
            handles, labels = axes.get_legend_handles_labels()
            named |= dict(zip(labels, handles, strict=True))
    # The best goes after the line that it belongs to.
    labels = sorted(named, key=lambda label: label.startswith("best"))
    if labels:
        panel.legend(
            [named[label] for label in labels],
            labels,
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=len(labels),
        )
