"""A report as tables on a terminal."""

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mtkit.console import say, warn
from mtkit.data.preparation.facts import ReportedSelection
from mtkit.data.preparation.report import Report
from mtkit.units import plural

_RANKED_SHOWN = 3
"""Rows shown of each end of a ranking."""
_SHOWN_CHARACTERS = 60


def show_report(report: Report, console: Console) -> None:
    """Prints the report: what was dropped by each filter, what the tokens look like, the notes."""
    console.print(_corpus_table(report))
    if report.tokens:
        console.print(_token_table(report))
    if report.epoch is not None:
        epoch = report.epoch
        passes = report.max_steps / max(1, epoch.updates)
        say(
            f"one epoch: {plural(epoch.updates, 'update')}, {epoch.describe()}; "
            f"training.max_steps = {report.max_steps:,} is {passes:,.1f} epochs"
        )
    if report.selection is not None:
        console.print(_selection_table(report, report.selection))
    for side, language in zip(report.tokens, report.languages, strict=False):
        growth = report.tokens[side].get("sampling_growth")
        if growth is not None:
            say(f"sampled segmentations have {growth - 1:.0%} more tokens in {language}")
    for note in report.notes:
        warn(note)


def _corpus_table(report: Report) -> Table:
    table = Table()
    table.add_column(f"{report.unit}s")
    for corpus in report.corpora:
        table.add_column(Text(corpus["name"]), justify="right")
    several = len(report.corpora) > 1
    if several:
        table.add_column("all", justify="right")

    def add(label: str, counts: Sequence[int], *, of: Sequence[int] | None = None) -> None:
        if several:
            counts = [*counts, sum(counts)]
            of = None if of is None else [*of, sum(of)]
        shares = [""] * len(counts)
        if of is not None:
            shares = [
                f" {count / max(1, total):6.2%}" for count, total in zip(counts, of, strict=True)
            ]
        cells = (f"{count:,}{share}" for count, share in zip(counts, shares, strict=True))
        table.add_row(Text(label), *cells)

    read = [corpus["read"] for corpus in report.corpora]
    add("read", read)
    for name, total in report.total_dropped().items():
        if total:
            add(f"- {name}", [corpus["dropped"].get(name, 0) for corpus in report.corpora], of=read)
    add("kept", [corpus["kept"] for corpus in report.corpora], of=read)
    for kind in report.total_augmented():
        counted = [corpus.get("augmented", {}).get(kind, 0) for corpus in report.corpora]
        add(f"+ {kind}", counted, of=[corpus["kept"] for corpus in report.corpora])
    if len(report.languages) == 1:
        add("documents", [corpus.get("documents", 0) for corpus in report.corpora])
        if report.tokens:
            add("blocks", [corpus.get("blocks", 0) for corpus in report.corpora])
    repairs = dict.fromkeys(kind for corpus in report.corpora for kind in corpus["repaired"])
    counts = {kind: [c["repaired"].get(kind, 0) for c in report.corpora] for kind in repairs}
    if any(map(any, counts.values())):
        table.add_section()
        for kind, row in counts.items():
            if any(row):
                add(f"lines repaired: {kind}", row)
    return table


def _selection_table(report: Report, found: ReportedSelection) -> Table:
    """Returns how the text is ranked, and which of it is kept: by corpus, with examples."""
    sample = " of a sample" if found["is_estimate"] else ""
    table = Table(
        title=f"{found['kept']:,} of {found['scored']:,} {report.unit}s{sample} are selected: "
        f"{describe_limit(found)}",
        title_justify="left",
    )
    table.add_column("selection")
    table.add_column(name_value(found), justify="right")
    table.add_column("kept", justify="right")
    table.add_column("", overflow="ellipsis", no_wrap=True)
    for name, each in found["corpora"].items():
        kept = f"{each['kept']:,} {each['kept'] / max(1, each['scored']):6.2%}"
        mean = "" if each["mean"] is None else f"{each['mean']:.3f}"
        table.add_row(Text(f"{name}, mean"), mean, kept, "")
    table.add_section()
    for share in ("5%", "20%", "50%", "80%", "95%"):
        table.add_row(f"{share} are up to", f"{found['quantiles'][share]:.3f}", "", "")
    table.add_section()
    for where, rows in found["samples"].items():
        for row in rows[:_RANKED_SHOWN]:
            text = row["source"] if report.unit == "pair" else row["text"]
            shown = Text(f"{row['corpus']}: {text[:_SHOWN_CHARACTERS]}")
            table.add_row(where, f"{row['difference']:.3f}", "", shown)
    return table


def describe_limit(found: ReportedSelection) -> str:
    """Returns up to where a ranking's rows are kept."""
    if found["unit"] == "probability":
        return f"probabilities of a fault up to {found['limit']:.3f}"
    return f"differences up to {found['limit']:.3f} nats per {found['unit']}"


def name_value(found: ReportedSelection) -> str:
    """Returns what a ranking is by, for a table's header."""
    return "P(fault)" if found["unit"] == "probability" else "difference"


def _token_table(report: Report) -> Table:
    table = Table()
    table.add_column("tokens")
    for language in report.languages:
        table.add_column(Text(language), justify="right")
    sides = [report.tokens[side] for side in report.columns]
    is_pairs = len(sides) > 1

    def add(label: str, cells: Sequence[str]) -> None:
        table.add_row(label, *cells)

    add("total", [f"{side['tokens']:,}" for side in sides])
    for label, share in (
        (f"median {'sentence' if is_pairs else 'block'}", 0.5),
        ("95th percentile", 0.95),
        ("longest", 1.0),
    ):
        add(label, [f"{quantile(side['lengths'], share):,}" for side in sides])
    add("vocabulary size", [f"{side['pieces']:,}" for side in sides])
    add(
        f"  used by {'this side' if is_pairs else 'the text'}",
        [f"{side['pieces_used']:,}" for side in sides],
    )
    add("unknown tokens", [f"{side['unknown_tokens']:,}" for side in sides])
    return table


def quantile(histogram: Sequence[int], share: float) -> int:
    """Returns the shortest length that at least a share of the sentences don't exceed."""
    sums = np.cumsum(histogram)
    return int(np.searchsorted(sums, share * sums[-1])) if len(sums) and sums[-1] else 0


def show_longest(report: Report, console: Console) -> None:
    """Prints the longest rows that were read, the beginning of each."""
    table = Table()
    table.add_column(f"longest {report.unit}s")
    table.add_column("line", justify="right")
    table.add_column("characters", justify="right")
    table.add_column(report.columns[0])
    for corpus in report.corpora:
        for row in corpus["longest"][:3]:
            beginning = row["source"] if report.unit == "pair" else row["text"]
            table.add_row(
                Text(corpus["name"]),
                f"{row['line']:,}",
                f"{row['characters']:,}",
                Text(beginning[:60]),
            )
    console.print(table)
