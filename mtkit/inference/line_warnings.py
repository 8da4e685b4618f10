"""Warnings about single lines, and how they are printed without flooding the screen."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from mtkit.console import warn

_MAX_OF_A_KIND = 5


@dataclass(frozen=True)
class LineWarning:
    """Something that a reader should know of a line's translation.

    Attributes:
        kind: What warnings like it are counted under, such as `too long for the model`.
        text: The warning, which names the line.
        line: The line's number, the first being 1.
    """

    kind: str
    text: str
    line: int


class WarningPrinter:
    """Prints warnings about a stream's lines: the first of each kind, then how many more came.

    It belongs to one stream or call, and sums up when that ends, however it ends:

        with WarningPrinter() as printer:
            printer.print(translation.warnings)

    Args:
        is_silent: Whether nothing is printed at all.
    """

    def __init__(self, *, is_silent: bool = False) -> None:
        self._is_silent = is_silent
        self._counts: Counter[str] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for counted, count in self._counts.items():
            if not self._is_silent and count > _MAX_OF_A_KIND:
                warn(f"{count - _MAX_OF_A_KIND:,} more lines: {counted}")

    def print(self, warnings: Iterable[LineWarning]) -> None:
        """Prints each warning, unless there were enough of its kind."""
        for warning in warnings:
            self._counts[warning.kind] += 1
            if not self._is_silent and self._counts[warning.kind] <= _MAX_OF_A_KIND:
                warn(warning.text)
