"""A report as an HTML page: tables, histograms of lengths, sample sentences."""

import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from mtkit.data.preparation.preparation_report import PreparationReport
from mtkit.data.preparation.stage import ReportSection
from mtkit.files import as_json_text, write_atomically


def write_pages(report: PreparationReport, sections: Iterable[ReportSection], folder: Path) -> None:
    """Writes `report.json`, and `report.html` for a browser."""
    found = asdict(report)
    for name in ("selection", "translated"):
        if found[name] is None:
            del found[name]
    write_atomically(folder / "report.json", as_json_text(found))
    write_atomically(folder / "report.html", render_report(report, sections))


def render_report(report: PreparationReport, sections: Iterable[ReportSection]) -> str:
    """Returns a self-contained HTML page of a report."""
    # Imported here: a command that ends before its report needs no templates.
    from markupsafe import Markup  # noqa: PLC0415

    from mtkit.pages import open_templates  # noqa: PLC0415

    environment = open_templates("mtkit.data.preparation")
    environment.filters.update(count="{:,}".format, text=lambda text: Markup(escape(text)))
    template = environment.get_template("report.html.jinja")
    page: str = template.render(report=report, sections=list(sections))
    return f"{page}\n"


def draw_lengths(languages: Sequence[str], histograms: Sequence[Sequence[int]], what: str) -> str:
    """Returns a histogram of the lengths of sentences or blocks, as SVG."""
    # Imported here: it takes half a second that only a report should pay.
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    picture = io.StringIO()
    # No date or random names, so that the same report gives the same page. And no LaTeX, which a
    # `matplotlibrc` in the current folder could run.
    style: dict[Any, Any] = {"svg.hashsalt": "mtkit", "svg.fonttype": "none", "text.usetex": False}
    with mpl.rc_context(style):
        figure = Figure(figsize=(8.0, 3.0), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots()
        for language, histogram in zip(languages, histograms, strict=True):
            axes.stairs(histogram, range(len(histogram) + 1), label=language)
        axes.set_xlabel(f"tokens per {what}, </s> included")
        axes.set_ylabel(f"{what}s")
        axes.set_xlim(0, max(_last(histogram) for histogram in histograms) + 1)
        axes.legend()
        axes.grid(alpha=0.3)
        figure.savefig(picture, format="svg", metadata={"Date": None})
    text = picture.getvalue()
    return text[text.index("<svg") :]


def _last(histogram: Sequence[int]) -> int:
    return int(np.max(np.flatnonzero(histogram), initial=1))
