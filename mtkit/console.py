"""Everything that mtkit prints for people: on stderr, because stdout is for data only."""

import sys
import time
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from mtkit.errors import MtkitError
from mtkit.paths import without_surrogates

if TYPE_CHECKING:
    from rich.console import Console

Part = TypeVar("Part")
_SECONDS_BETWEEN_LINES = 30.0


def open_console() -> "Console":
    """Returns a console on the current stderr; plain, unwrapped lines unless it is a terminal."""
    # Imported here: commands that print nothing don't load it.
    from rich.console import Console  # noqa: PLC0415

    if sys.stderr is not None and sys.stderr.isatty():
        return Console(stderr=True, highlight=False)
    # A log file is grepped and diffed: no wrapping at an assumed terminal's 80 columns. FORCE_COLOR
    # would make rich treat it as a terminal, and redraw a bar line by line.
    return Console(
        stderr=True, highlight=False, width=10_000, color_system=None, force_terminal=False
    )


def print_line(console: "Console", *parts: str | tuple[str, str]) -> None:
    """Prints a line unwrapped, markup and emoji codes literally; only a terminal shows styles."""
    styled = [(part, "") if isinstance(part, str) else part for part in parts]
    plain = [(without_surrogates(text), style) for text, style in styled]
    if console.is_terminal:
        from rich.text import Text  # noqa: PLC0415

        console.print(Text.assemble(*plain), soft_wrap=True)
    else:
        # Not with rich, which turns tabs into spaces.
        console.file.write("".join(text for text, _ in plain) + "\n")
        console.file.flush()


def say(text: str) -> None:
    """Prints a line of progress."""
    print_line(open_console(), text)


def warn(text: str) -> None:
    """Prints a line that begins with `warning:`."""
    print_line(open_console(), ("warning:", "yellow"), " ", text)


warn_once = cache(warn)
"""Prints a warning the first time that it is given."""


def report(error: MtkitError) -> None:
    """Prints an error as an `error:` line and, if it has a hint, a `hint:` line."""
    console = open_console()
    print_line(console, ("error:", "red"), " ", error.message)
    if error.hint:
        print_line(console, ("hint:", "cyan"), " ", error.hint)


def show_progress(
    parts: Iterable[tuple[int, Part]], what: str, unit: str = "pair"
) -> Iterator[Part]:
    """Yields each part of the work, and shows how many rows are done and how fast.

    Parts come with their number of rows; a row is a `unit`.
    """
    from rich.text import Text  # noqa: PLC0415

    console = open_console()
    started_at = shown_at = time.monotonic()
    num_rows = 0
    status = console.status(Text(f"{what} ...")) if console.is_terminal else None
    if status is not None:
        status.start()
    try:
        for count, part in parts:
            yield part
            num_rows += count
            now = time.monotonic()
            text = f"{what}: {num_rows:,} {unit}s, {num_rows / (now - started_at):,.0f} per second"
            if status is not None:
                status.update(Text(text))
            elif now - shown_at > _SECONDS_BETWEEN_LINES:
                shown_at = now
                say(text)
    finally:
        if status is not None:
            status.stop()
