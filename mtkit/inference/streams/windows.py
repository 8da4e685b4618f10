"""A stream's lines, taken some at a time and answered together; and warnings about them."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Self, TypeVar

from mtkit.console import warn
from mtkit.inference.request import LineError, LineWarning
from mtkit.inference.translation import Translation

WINDOW_LINES = 1_024
"""Max lines translated together: enough to batch sentences of similar length, few enough to stream.
"""
_MAX_OF_A_KIND = 5
"""Max warnings of a kind that are printed, so that they don't flood the screen."""

Line = TypeVar("Line")
Answer = Callable[[Sequence[Line], int], list[Translation]]
"""Answers a window, given its first line's number: all of its lines, or a `LineError` that names
the first at fault."""


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
        for kind, count in self._counts.items():
            if not self._is_silent and count > _MAX_OF_A_KIND:
                warn(f"{count - _MAX_OF_A_KIND:,} more lines: {kind}")

    def print(self, warnings: Iterable[LineWarning]) -> None:
        """Prints each warning, unless there were enough of its kind."""
        for warning in warnings:
            self._counts[warning.kind] += 1
            if not self._is_silent and self._counts[warning.kind] <= _MAX_OF_A_KIND:
                warn(warning.text)

    def print_all(self, translations: Iterable[Translation]) -> None:
        """Prints the warnings of translations."""
        for translation in translations:
            self.print(translation.warnings)


def answer_windows(
    windows: Iterable[Sequence[Line]], answer: Answer[Line], printer: WarningPrinter
) -> Iterator[tuple[Sequence[Line], list[Translation]]]:
    """Yields each window's lines with their answers, up to a line at fault; prints warnings.

    Raises:
        LineError: A line is at fault; all lines before it have been yielded.
    """
    first_line = 1
    for window in windows:
        found, fault = answer_window(window, answer, first_line)
        printer.print_all(found)
        yield window[: len(found)], found
        if fault is not None:
            raise fault
        first_line += len(window)


def answer_window(
    window: Sequence[Line], answer: Answer[Line], first_line: int
) -> tuple[list[Translation], LineError | None]:
    """Returns a window's answers; if a line is at fault, those before it, and the fault."""
    fault: LineError | None = None
    while True:
        try:
            return answer(window, first_line), fault
        except LineError as error:
            fault, window = error, window[: error.line - first_line]


def take_windows(lines: Iterable[Line], window_lines: int) -> Iterator[list[Line]]:
    """Yields lines so many at a time, and at the end what is left."""
    iterator = iter(lines)
    while window := list(itertools.islice(iterator, window_lines)):
        yield window
