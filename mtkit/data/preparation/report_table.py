"""A report as tables on a terminal."""

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mtkit.console import say, warn
from mtkit.data.preparation.report import Report
from mtkit.units import plural


def show_report(report: Report, console: Console) -> None:
    """Prints the report: what was dropped by each filter, what the tokens look like, the notes."""
    console.print(_corpus_table(report))
    if report.tokens:
        console.print(_token_table(report))
    if report.epoch is not None:
        epoch = report.epoch
        passes = report.max_steps / max(1, epoch.updates)
        say(
            f"an epoch: {plural(epoch.updates, 'update')}, "
            f"{epoch.pairs:,} pairs, {epoch.source_tokens:,} source and {epoch.target_tokens:,} "
            "target tokens; "
            f"training.max_steps = {report.max_steps:,} are {passes:,.1f} epochs"
        )
    for side, language in zip(report.tokens, report.languages, strict=False):
        growth = report.tokens[side].get("sampling_growth")
        if growth is not None:
            say(f"sampled segmentations have {growth - 1:.0%} more tokens in {language}")
    for note in report.notes:
        warn(note)


def _corpus_table(report: Report) -> Table:
    table = Table()
    table.add_column("pairs")
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
    repairs = dict.fromkeys(kind for corpus in report.corpora for kind in corpus["repaired"])
    counts = {kind: [c["repaired"].get(kind, 0) for c in report.corpora] for kind in repairs}
    if any(map(any, counts.values())):
        table.add_section()
        for kind, row in counts.items():
            if any(row):
                add(f"lines repaired: {kind}", row)
    return table


def _token_table(report: Report) -> Table:
    table = Table()
    table.add_column("tokens")
    for language in report.languages:
        table.add_column(Text(language), justify="right")
    sides = [report.tokens[side] for side in ("source", "target")]

    def add(label: str, cells: Sequence[str]) -> None:
        table.add_row(label, *cells)

    add("in all", [f"{side['tokens']:,}" for side in sides])
    for label, share in (("median sentence", 0.5), ("95 % are at most", 0.95), ("longest", 1.0)):
        add(label, [f"{quantile(side['lengths'], share):,}" for side in sides])
    add("pieces of the vocabulary", [f"{side['pieces']:,}" for side in sides])
    add("  that this side uses", [f"{side['pieces_used']:,}" for side in sides])
    add("unknown", [f"{side['unknown_tokens']:,}" for side in sides])
    return table


def quantile(histogram: Sequence[int], share: float) -> int:
    """Returns the least length that at least a share of the sentences don't exceed."""
    sums = np.cumsum(histogram)
    return int(np.searchsorted(sums, share * sums[-1])) if len(sums) and sums[-1] else 0


def show_longest(report: Report, console: Console) -> None:
    """Prints the longest pairs that were read, the beginning of each."""
    table = Table()
    table.add_column("longest pairs")
    table.add_column("line", justify="right")
    table.add_column("characters", justify="right")
    table.add_column("source")
    for corpus in report.corpora:
        for pair in corpus["longest"][:3]:
            name, beginning = Text(corpus["name"]), Text(pair["source"][:60])
            table.add_row(name, f"{pair['line']:,}", f"{pair['characters']:,}", beginning)
    console.print(table)
