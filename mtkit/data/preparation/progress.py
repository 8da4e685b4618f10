"""How far a stage is: a live line on a terminal, a line now and then elsewhere."""

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.text import Text

from mtkit.console import open_console, say

Part = TypeVar("Part")

_SECONDS_BETWEEN_LINES = 30.0


def follow(parts: Iterable[tuple[int, Part]], what: str, unit: str = "pair") -> Iterator[Part]:
    """Yields each part of a stage's work, and shows how many rows are done and how fast.

    Args:
        parts: Each with the number of rows that it took.
        what: Name of the stage.
        unit: What a row is: a pair or a line.
    """
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
