"""Everything that mtkit prints for people: on stderr, since stdout carries data alone."""

import sys

from rich.console import Console
from rich.text import Text

from mtkit.errors import MtkitError
from mtkit.paths import without_surrogates


def open_console() -> Console:
    """Returns a console on the stderr of this moment; plain, unwrapped lines off a terminal."""
    if sys.stderr is not None and sys.stderr.isatty():
        return Console(stderr=True, highlight=False)
    # A log file is grepped and diffed: no wrapping at an imagined terminal's 80 columns.
    # FORCE_COLOR would have rich take it for a terminal, and redraw a bar line by line.
    return Console(
        stderr=True, highlight=False, width=10_000, color_system=None, force_terminal=False
    )


def print_line(console: Console, *parts: str | tuple[str, str]) -> None:
    """Prints a line as it is: unwrapped, and nothing in it is taken for markup or emoji.

    Args:
        console: Where to.
        parts: Texts, or texts with a style, which a terminal alone shows.
    """
    styled = [(part, "") if isinstance(part, str) else part for part in parts]
    plain = [(without_surrogates(text), style) for text, style in styled]
    if console.is_terminal:
        console.print(Text.assemble(*plain), soft_wrap=True)
    else:
        # Not by rich, which makes spaces of tabs.
        console.file.write("".join(text for text, _ in plain) + "\n")
        console.file.flush()


def say(text: str) -> None:
    """Prints one line of progress."""
    print_line(open_console(), text)


def warn(text: str) -> None:
    """Prints one line that begins with `warning:`."""
    print_line(open_console(), ("warning:", "yellow"), " ", text)


def report(error: MtkitError) -> None:
    """Prints an error as its `error:` line and, where there is one, its `hint:` line."""
    console = open_console()
    print_line(console, ("error:", "red"), " ", error.message)
    if error.hint:
        print_line(console, ("hint:", "cyan"), " ", error.hint)
