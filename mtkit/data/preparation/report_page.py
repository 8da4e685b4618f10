"""A report as one page for a browser: tables, histograms of lengths, sentences to read."""

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from mtkit.data.preparation.facts import ReportedCorpus, ShownPair
from mtkit.data.preparation.report import Report
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
    text = json.dumps(asdict(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
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
        *_corpora(report.corpora),
        *_tokens(report),
        *_seconds(report.seconds, sum(corpus["read"] for corpus in report.corpora)),
        *(part for corpus in report.corpora for part in _samples(corpus)),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _corpora(corpora: Sequence[ReportedCorpus]) -> list[str]:
    filters = dict.fromkeys(name for corpus in corpora for name in corpus["dropped"])
    repairs = dict.fromkeys(kind for corpus in corpora for kind in corpus["repaired"])
    rows: list[list[str]] = [
        ["pairs read", *(f"{corpus['read']:,}" for corpus in corpora)],
        *(
            [f"dropped by {name}", *(_share(c["dropped"].get(name, 0), c["read"]) for c in corpora)]
            for name in filters
        ),
        ["kept", *(_share(corpus["kept"], corpus["read"]) for corpus in corpora)],
        ["times in an epoch", *(f"{corpus['weight']:g}" for corpus in corpora)],
        *(
            [f"lines repaired: {kind}", *(f"{c['repaired'].get(kind, 0):,}" for c in corpora)]
            for kind in repairs
        ),
    ]
    return ["<h2>Corpora</h2>", *_table(["", *(corpus["name"] for corpus in corpora)], rows)]


def _tokens(report: Report) -> list[str]:
    sides = [report.tokens[side] for side in ("source", "target") if side in report.tokens]
    if not sides:
        return []
    rows = [
        ["tokens", *(f"{side['tokens']:,}" for side in sides)],
        ["pieces of the vocabulary", *(f"{side['pieces']:,}" for side in sides)],
        ["pieces that this side uses", *(f"{side['pieces_used']:,}" for side in sides)],
        ["pieces seen less than ten times", *(f"{side['pieces_rare']:,}" for side in sides)],
        ["unknown tokens", *(_share(side["unknown_tokens"], side["tokens"]) for side in sides)],
        ["unknown characters", *(_list_unknown(side["unknown_pieces"]) for side in sides)],
    ]
    parts = ["<h2>Tokens</h2>", *_table(["", *report.languages], rows)]
    epoch = report.epoch
    if epoch is not None:
        parts.append(
            f"<p>An epoch has {epoch.updates:,} updates, {epoch.pairs:,} pairs, "
            f"{epoch.source_tokens:,} source and {epoch.target_tokens:,} target tokens.</p>"
        )
    return [*parts, _draw_lengths(report.languages, [side["lengths"] for side in sides])]


def _list_unknown(pieces: dict[str, int]) -> str:
    return " ".join(f"{piece} ({count:,})" for piece, count in pieces.items())


def _draw_lengths(languages: Sequence[str], histograms: Sequence[Sequence[int]]) -> str:
    """Returns a picture of the sentences' lengths, as SVG."""
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
        axes.set_xlabel("tokens of a sentence, </s> counted")
        axes.set_ylabel("sentences")
        axes.set_xlim(0, max(_last(histogram) for histogram in histograms) + 1)
        axes.legend()
        axes.grid(alpha=0.3)
        figure.savefig(picture, format="svg", metadata={"Date": None})
    text = picture.getvalue()
    return text[text.index("<svg") :]


def _last(histogram: Sequence[int]) -> int:
    return max((length for length, count in enumerate(histogram) if count), default=1)


def _seconds(seconds: dict[str, float], num_read: int) -> list[str]:
    rows = [
        [name, f"{spent:,.1f}", f"{spent / max(1, num_read) * 1e6:.2f}"]
        for name, spent in seconds.items()
    ]
    header = ["", "processor seconds", "microseconds a pair"]
    return ["<h2>Time of the cleaning</h2>", *_table(header, rows)]


def _samples(corpus: ReportedCorpus) -> Iterable[str]:
    for name, samples in corpus["samples"].items():
        yield f"<h2>{escape(corpus['name'])}: dropped by {escape(name)}</h2>"
        yield from _sentences(samples)
    if corpus["longest"]:
        yield f"<h2>{escape(corpus['name'])}: the longest pairs read</h2>"
        yield from _sentences(corpus["longest"])


def _sentences(samples: Sequence[ShownPair]) -> list[str]:
    rows = "\n".join(
        f'<tr><td class="number">{sample["line"] or ""}</td>'
        f'<td class="text">{escape(_visible(sample["source"]))}</td>'
        f'<td class="text">{escape(_visible(sample["target"]))}</td></tr>'
        for sample in samples
    )
    return [f"<table><tr><th>line</th><th>source</th><th>target</th></tr>{rows}</table>"]


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
