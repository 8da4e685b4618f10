"""How far a stage is: a live line on a terminal, a line now and then elsewhere."""

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.text import Text

from mtkit.console import open_console, say

Part = TypeVar("Part")

_SECONDS_BETWEEN_LINES = 30.0


def follow(parts: Iterable[tuple[int, Part]], what: str) -> Iterator[Part]:
    """Yields each part of a stage's work, and shows how many pairs are done and how fast.

    Args:
        parts: Each with the number of pairs that it took.
        what: Name of the stage.
    """
    console = open_console()
    started_at = shown_at = time.monotonic()
    num_pairs = 0
    status = console.status(Text(f"{what} ...")) if console.is_terminal else None
    if status is not None:
        status.start()
    try:
        for count, part in parts:
            yield part
            num_pairs += count
            now = time.monotonic()
            text = f"{what}: {num_pairs:,} pairs, {num_pairs / (now - started_at):,.0f} a second"
            if status is not None:
                status.update(Text(text))
            elif now - shown_at > _SECONDS_BETWEEN_LINES:
                shown_at = now
                say(text)
    finally:
        if status is not None:
            status.stop()
