"""Everything that mtkit says to a person: on stderr, since stdout carries data alone."""

import sys

from rich.console import Console

from mtkit.errors import MtkitError


def open_console() -> Console:
    """Returns a console on the stderr of this moment; plain, unwrapped lines off a terminal."""
    if sys.stderr.isatty():
        return Console(stderr=True, highlight=False)
    # A log file is grepped and diffed: no wrapping at an imagined terminal's 80 columns.
    # FORCE_COLOR would have rich take it for a terminal, and redraw a bar line by line.
    return Console(
        stderr=True, highlight=False, width=10_000, color_system=None, force_terminal=False
    )


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
