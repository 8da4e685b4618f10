"""A report as tables on a terminal."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mtkit.console import say, warn
from mtkit.data.preparation.preparation_report import PreparationReport
from mtkit.data.preparation.stage import ReportSection
from mtkit.units import plural

_TEXT_CHARACTERS = 60


def show_report(
    report: PreparationReport,
    sections: Iterable[ReportSection],
    console: Console,
    *,
    is_check: bool = False,
) -> None:
    """Prints the report: what each filter dropped, facts of the tokens, and the notes."""
    for section in sections:
        if section.on_terminal or (is_check and section.in_check):
            if section.caption:
                # Not as a title, which is wrapped to the width of the table.
                console.print(Text(section.caption), soft_wrap=True)
            console.print(_make_table(section))
    if report.epoch is not None:
        epoch = report.epoch
        passes = report.max_steps / max(1, epoch.updates)
        say(
            f"one epoch: {plural(epoch.updates, 'update') if epoch.updates else 'not one update'}, "
            f"{epoch.describe()}; "
            f"training.max_steps = {report.max_steps:,} is {passes:,.1f} epochs"
        )
    for side, language in zip(report.tokens, report.languages, strict=False):
        growth = report.tokens[side].get("sampling_growth")
        if growth is not None:
            say(f"sampled segmentations have {growth - 1:.0%} more tokens in {language}")
    for note in report.notes:
        warn(note)


def _make_table(section: ReportSection) -> Table:
    table = Table()
    num_numbers = len(section.header) - section.num_text_columns
    for index, name in enumerate(section.header):
        is_text = index >= num_numbers
        table.add_column(Text(name), justify="right" if index and not is_text else "left")
    for row in section.rows:
        cells = [
            Text(cell[:_TEXT_CHARACTERS] if index >= num_numbers else cell)
            for index, cell in enumerate(row)
        ]
        table.add_row(*cells)
    return table
