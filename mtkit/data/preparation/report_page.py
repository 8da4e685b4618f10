"""A report as one page for a browser: tables, histograms of lengths, sentences to read."""

import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from mtkit.data.preparation.facts import ReportedSelection
from mtkit.data.preparation.report import Report
from mtkit.data.preparation.report_table import describe_limit, name_value
from mtkit.files import write_atomically

Rows = list[list[str]]


def write_report(report: Report, folder: Path) -> None:
    """Writes `report.json`, and `report.html` to read in a browser."""
    found = asdict(report)
    if report.selection is None:
        del found["selection"]
    text = json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(folder / "report.json", text)
    write_atomically(folder / "report.html", render_page(report))


def render_page(report: Report) -> str:
    """Returns a self-contained HTML page on a report."""
    # Imported here: a command that ends before its report needs no templates.
    from markupsafe import Markup  # noqa: PLC0415

    from mtkit.pages import open_templates  # noqa: PLC0415

    environment = open_templates("mtkit.data.preparation")
    environment.filters.update(
        count="{:,}".format, text=lambda text: Markup(escape(text)), visible=_visible
    )
    page: str = environment.get_template("report.html.jinja").render(
        report=report,
        corpora=_corpora(report),
        seconds=_seconds(report),
        **_tokens(report),
        **({} if report.selection is None else _selection(report, report.selection)),
    )
    return f"{page}\n"


def _corpora(report: Report) -> Rows:
    corpora = report.corpora
    filters = dict.fromkeys(name for corpus in corpora for name in corpus["dropped"])
    repairs = dict.fromkeys(kind for corpus in corpora for kind in corpus["repaired"])
    return [
        [f"{report.unit}s read", *(f"{corpus['read']:,}" for corpus in corpora)],
        *(
            [f"dropped by {name}", *(_share(c["dropped"].get(name, 0), c["read"]) for c in corpora)]
            for name in filters
        ),
        ["kept", *(_share(corpus["kept"], corpus["read"]) for corpus in corpora)],
        *(
            [
                f"examples added: {kind}",
                *(f"{corpus.get('augmented', {}).get(kind, 0):,}" for corpus in corpora),
            ]
            for kind in report.total_augmented()
        ),
        *_documents(report),
        ["times per epoch", *(f"{corpus['weight']:g}" for corpus in corpora)],
        *(
            [f"lines repaired: {kind}", *(f"{c['repaired'].get(kind, 0):,}" for c in corpora)]
            for kind in repairs
        ),
    ]


def _documents(report: Report) -> Rows:
    """Returns rows that say how many documents and blocks of text in one language there are."""
    if len(report.languages) > 1:
        return []
    return [
        ["documents", *(f"{corpus.get('documents', 0):,}" for corpus in report.corpora)],
        ["blocks", *(f"{corpus.get('blocks', 0):,}" for corpus in report.corpora)],
    ]


def _tokens(report: Report) -> dict[str, object]:
    """Returns rows on the tokens of each column, a picture of lengths, and an epoch's size."""
    sides = [report.tokens[side] for side in report.columns if side in report.tokens]
    if not sides:
        return {"sides": sides}
    rows = [
        ["tokens", *(f"{side['tokens']:,}" for side in sides)],
        ["vocabulary size", *(f"{side['pieces']:,}" for side in sides)],
        [
            f"pieces used by {'this side' if len(sides) > 1 else 'the text'}",
            *(f"{side['pieces_used']:,}" for side in sides),
        ],
        ["pieces seen fewer than ten times", *(f"{side['pieces_rare']:,}" for side in sides)],
        ["unknown tokens", *(_share(side["unknown_tokens"], side["tokens"]) for side in sides)],
        ["unknown characters", *(_list_unknown(side["unknown_pieces"]) for side in sides)],
    ]
    what = "sentence" if len(sides) > 1 else "block"
    lengths = _draw_lengths(report.languages, [side["lengths"] for side in sides], what)
    size = "" if report.epoch is None else report.epoch.describe()
    return {"sides": sides, "tokens": rows, "lengths": lengths, "epoch_size": size}


def _list_unknown(pieces: dict[str, int]) -> str:
    return " ".join(f"{piece} ({count:,})" for piece, count in pieces.items())


def _draw_lengths(languages: Sequence[str], histograms: Sequence[Sequence[int]], what: str) -> str:
    """Returns a histogram of the lengths of sentences or blocks, as SVG."""
    # Imported here: it takes half a second that only a report should pay.
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    picture = io.StringIO()
    # Neither date nor random names: the same report makes the same page. And no LaTeX, which a
    # `matplotlibrc` in the current folder could have run.
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
    return max((length for length, count in enumerate(histogram) if count), default=1)


def _selection(report: Report, found: ReportedSelection) -> dict[str, object]:
    """Returns the ranking of the text: its quantiles, its corpora, rows to read."""
    value_name = name_value(found)
    return {
        "limit": describe_limit(found),
        "value_name": value_name,
        "quantiles": [
            [f"largest {value_name}", *(f"{value:.3f}" for value in found["quantiles"].values())]
        ],
        "ranked": [
            [
                name,
                f"{each['scored']:,}",
                _share(each["kept"], each["scored"]),
                "" if each["mean"] is None else f"{each['mean']:.3f}",
            ]
            for name, each in found["corpora"].items()
        ],
        "samples": {
            where: [
                [
                    f"{row['difference']:.3f}",
                    row["corpus"],
                    *(_visible(str(text)) for name, text in row.items() if name in report.columns),
                ]
                for row in rows
            ]
            for where, rows in found["samples"].items()
        },
    }


def _seconds(report: Report) -> Rows:
    num_read = sum(corpus["read"] for corpus in report.corpora)
    return [
        [name, f"{spent:,.1f}", f"{spent / max(1, num_read) * 1e6:.2f}"]
        for name, spent in report.seconds.items()
    ]


def _visible(text: str) -> str:
    """Returns text with characters that no font shows written out."""
    return "".join(
        character if character.isprintable() else f"⟨U+{ord(character):04X}⟩" for character in text
    )


def _share(count: int, total: int) -> str:
    return f"{count:,} ({count / max(1, total):.2%})"
