"""A report as one page for a browser: tables, histograms of lengths, sentences to read."""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from mtkit.data.preparation.facts import ReportedCorpus, ShownRow
from mtkit.data.preparation.report import Report, TextEpochSize
from mtkit.data.preparation.report_table import describe_limit, name_value
from mtkit.files import write_atomically

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 1rem }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { border-bottom: 1px solid #ccc; padding: .2rem .8rem; text-align: left }
td { vertical-align: top }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
td.text { max-width: 26rem; overflow-wrap: anywhere }
.note { background: #fff3d0; padding: .3rem .8rem; margin: .3rem 0 }
svg { max-width: 100%; height: auto }
"""


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
    title = f"{report.recipe}: {' → '.join(report.languages)}"
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        *(f'<p class="note">{escape(note)}</p>' for note in report.notes),
        *_corpora(report),
        *_tokens(report),
        *_selection(report),
        *_seconds(report),
        *(part for corpus in report.corpora for part in _samples(corpus, report)),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _corpora(report: Report) -> list[str]:
    corpora = report.corpora
    filters = dict.fromkeys(name for corpus in corpora for name in corpus["dropped"])
    repairs = dict.fromkeys(kind for corpus in corpora for kind in corpus["repaired"])
    rows: list[list[str]] = [
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
    return ["<h2>Corpora</h2>", *_table(["", *(corpus["name"] for corpus in corpora)], rows)]


def _documents(report: Report) -> list[list[str]]:
    """Returns rows that say how many documents and blocks of text in one language there are."""
    if len(report.languages) > 1:
        return []
    return [
        ["documents", *(f"{corpus.get('documents', 0):,}" for corpus in report.corpora)],
        ["blocks", *(f"{corpus.get('blocks', 0):,}" for corpus in report.corpora)],
    ]


def _tokens(report: Report) -> list[str]:
    sides = [report.tokens[side] for side in report.columns if side in report.tokens]
    if not sides:
        return []
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
    parts = ["<h2>Tokens</h2>", *_table(["", *report.languages], rows)]
    epoch = report.epoch
    if epoch is not None:
        size = (
            f"{epoch.blocks:,} blocks, {epoch.tokens:,} tokens"
            if isinstance(epoch, TextEpochSize)
            else f"{epoch.pairs:,} pairs, {epoch.source_tokens:,} source and "
            f"{epoch.target_tokens:,} target tokens"
        )
        parts.append(f"<p>An epoch has {epoch.updates:,} updates, {size}.</p>")
    what = "sentence" if len(sides) > 1 else "block"
    return [*parts, _draw_lengths(report.languages, [side["lengths"] for side in sides], what)]


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


def _selection(report: Report) -> list[str]:
    """Returns the ranking of the text: its quantiles, its corpora, rows to read."""
    found = report.selection
    if found is None:
        return []
    of = f"a sample of {found['scored']:,}" if found["is_estimate"] else f"{found['scored']:,}"
    parts = [
        "<h2>Selection</h2>",
        f"<p>{found['kept']:,} of {of} {report.unit}s are kept: {describe_limit(found)}. "
        + (
            "The classifier takes the others for faults.</p>"
            if found["unit"] == "probability"
            else "Differences are of cross-entropies: lower is more like the text of the "
            "in-domain model.</p>"
        ),
        *_table(
            ["", *found["quantiles"]],
            [
                [
                    f"largest {name_value(found)}",
                    *(f"{value:.3f}" for value in found["quantiles"].values()),
                ]
            ],
        ),
        *_table(
            ["corpus", f"{report.unit}s ranked", "kept", f"mean {name_value(found)}"],
            [
                [
                    name,
                    f"{each['scored']:,}",
                    _share(each["kept"], each["scored"]),
                    "" if each["mean"] is None else f"{each['mean']:.3f}",
                ]
                for name, each in found["corpora"].items()
            ],
        ),
    ]
    for where, rows in found["samples"].items():
        header = [name_value(found), "corpus", *report.columns]
        cells: list[list[str]] = [
            [
                f"{row['difference']:.3f}",
                row["corpus"],
                *(_visible(str(text)) for name, text in row.items() if name in report.columns),
            ]
            for row in rows
        ]
        parts += [f"<h3>{escape(where)}</h3>", *_table(header, cells)]
    return parts


def _seconds(report: Report) -> list[str]:
    num_read = sum(corpus["read"] for corpus in report.corpora)
    rows = [
        [name, f"{spent:,.1f}", f"{spent / max(1, num_read) * 1e6:.2f}"]
        for name, spent in report.seconds.items()
    ]
    header = ["", "CPU seconds", f"microseconds per {report.unit}"]
    return ["<h2>Time spent on cleaning</h2>", *_table(header, rows)]


def _samples(corpus: ReportedCorpus, report: Report) -> Iterable[str]:
    for name, samples in corpus["samples"].items():
        yield f"<h2>{escape(corpus['name'])}: dropped by {escape(name)}</h2>"
        yield from _sentences(samples, report.columns)
    if corpus["longest"]:
        yield f"<h2>{escape(corpus['name'])}: longest {report.unit}s read</h2>"
        yield from _sentences(corpus["longest"], report.columns)


def _sentences(samples: Sequence[ShownRow], columns: Sequence[str]) -> list[str]:
    def cells(sample: Mapping[str, Any]) -> str:
        texts = (_visible(str(sample[column])) for column in columns)
        return "".join(f'<td class="text">{escape(text)}</td>' for text in texts)

    rows = "\n".join(
        f'<tr><td class="number">{sample["line"] or ""}</td>{cells(sample)}</tr>'
        for sample in samples
    )
    head = "".join(f"<th>{column}</th>" for column in columns)
    return [f"<table><tr><th>line</th>{head}</tr>{rows}</table>"]


def _visible(text: str) -> str:
    """Returns text with characters that no font shows written out."""
    return "".join(
        character if character.isprintable() else f"⟨U+{ord(character):04X}⟩" for character in text
    )


def _share(count: int, total: int) -> str:
    return f"{count:,} ({count / max(1, total):.2%})"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    head = "".join(
        f"<th{' class=number' if index else ''}>{escape(cell)}</th>"
        for index, cell in enumerate(header)
    )
    body = "\n".join(
        "<tr>"
        + "".join(
            f"<td{' class=number' if index else ''}>{escape(cell)}</td>"
            for index, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return [f"<table><tr>{head}</tr>{body}</table>"]
