"""Everything that mtkit says to a person: on stderr, since stdout carries data alone."""

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from mtkit.errors import MtkitError


def open_console() -> Console:
    """Returns a console on the stderr of this moment; plain, unwrapped lines off a terminal."""
    if sys.stderr.isatty():
        return Console(stderr=True, highlight=False)
    # A log file is grepped and diffed: no wrapping at an imagined terminal's 80 columns.
    return Console(stderr=True, highlight=False, width=10_000, color_system=None)


def say(text: str) -> None:
    """Prints one line of progress."""
    open_console().print(text, markup=False, soft_wrap=True)


def warn(text: str) -> None:
    """Prints one line that begins with `warning:`."""
    console = open_console()
    console.print("[yellow]warning:[/yellow] ", end="")
    console.print(text, markup=False, soft_wrap=True)


def report(error: MtkitError) -> None:
    """Prints an error as its `error:` line and, where there is one, its `hint:` line."""
    console = open_console()
    console.print("[red]error:[/red] ", end="")
    console.print(error.message, markup=False, soft_wrap=True)
    if error.hint:
        console.print("[cyan]hint:[/cyan] ", end="")
        console.print(error.hint, markup=False, soft_wrap=True)


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table; numbers, which are all but the first column, stand to the right."""
    table = Table(title=title, title_justify="left")
    for index, name in enumerate(header):
        table.add_column(name, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*row)
    open_console().print(table, soft_wrap=not sys.stderr.isatty())
