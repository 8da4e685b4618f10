r"""Reads and writes streams of byte lines, without holding lines back and without cutting one.

Only `\n` ends a line; text after the last `\n` is a line, too.
"""

import itertools
import os
import select
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import UnsupportedOperation
from types import FrameType
from typing import BinaryIO, Self, TypeVar

from mtkit.console import warn
from mtkit.errors import MtkitError
from mtkit.inference.request import LineError, LineWarning
from mtkit.inference.translation import Translation

WINDOW_LINES = 1_024
"""Maximum lines translated together: enough to batch similar lengths, few enough to stream."""
_MAX_OF_A_KIND = 5
"""Maximum printed warnings of one kind."""

Line = TypeVar("Line")
Answer = Callable[..., list[Translation]]
"""Answers a window, given its first line's number as `first_line`, or raises a `LineError` that
names the first invalid line."""
_READ_BYTES = 1 << 16
_WINDOW_BYTES = 1 << 20
_MAX_LINE_BYTES = 1 << 26


class WarningPrinter:
    """Prints warnings about a stream's lines: the first of each kind, then the number of others.

    It belongs to one stream or call, and prints the numbers when that ends, also after an error:

        with WarningPrinter() as printer:
            printer.print(translation.warnings)

    Attributes:
        counts: Warnings of each kind.
        first: The first of each kind.
    """

    def __init__(self, *, is_silent: bool = False) -> None:
        self._is_silent = is_silent
        self.counts: Counter[str] = Counter()
        self.first: list[LineWarning] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for kind, count in self.counts.items():
            if not self._is_silent and count > _MAX_OF_A_KIND:
                warn(f"{count - _MAX_OF_A_KIND:,} more lines: {kind}")

    def print(self, warnings: Iterable[LineWarning]) -> None:
        """Prints each warning, up to the limit of its kind."""
        for warning in warnings:
            self.counts[warning.kind] += 1
            if self.counts[warning.kind] <= _MAX_OF_A_KIND:
                self.first.append(warning)
                if not self._is_silent:
                    warn(warning.text)

    def add(self, other: Self, locate: Callable[[int], str]) -> None:
        """Prints the warnings of a silent printer; `locate` returns a line's location."""
        for warning in other.first:
            if self.counts[warning.kind] < _MAX_OF_A_KIND:
                self.print([replace(warning, place=locate(warning.line))])
                other.counts[warning.kind] -= 1
        self.counts += other.counts

    def print_all(self, translations: Iterable[Translation]) -> None:
        """Prints the warnings of translations."""
        for translation in translations:
            self.print(translation.warnings)


def answer_windows(
    windows: Iterable[Sequence[Line]],
    answer: Answer,
    printer: WarningPrinter,
    first_line: int = 1,
) -> Iterator[tuple[Sequence[Line], list[Translation]]]:
    """Yields each window's lines with their answers, up to an invalid line; prints warnings.

    Raises:
        LineError: A line is invalid; all lines before it have been yielded.
    """
    for window in windows:
        found, fault = answer_window(window, answer, first_line)
        printer.print_all(found)
        yield window[: len(found)], found
        if fault is not None:
            raise fault
        first_line += len(window)


def answer_window(
    window: Sequence[Line], answer: Answer, first_line: int
) -> tuple[list[Translation], LineError | None]:
    """Returns a window's answers; or the answers before an invalid line, and its error."""
    fault: LineError | None = None
    while True:
        try:
            return answer(window, first_line=first_line), fault
        except LineError as error:
            fault, window = error, window[: error.line - first_line]


def answer_each(requests: Sequence[Line], answer: Answer) -> list[Translation | None]:
    """Returns each request's answer; None for an invalid one."""
    found: list[Translation | None] = []
    while len(found) < len(requests):
        answered, fault = answer_window(requests[len(found) :], answer, 1)
        found += [*answered, *([None] if fault is not None else [])]
    return found


def take_windows(lines: Iterable[Line], window_lines: int) -> Iterator[list[Line]]:
    """Yields up to `window_lines` lines at a time."""
    if not isinstance(window_lines, int) or window_lines < 1:
        raise MtkitError(f"window_lines = {window_lines!r}, expected a whole number from 1")
    iterator = iter(lines)
    while window := list(itertools.islice(iterator, window_lines)):
        yield window


def read_byte_lines(source: BinaryIO, first_line: int = 1) -> Iterator[list[bytes]]:
    """Yields the available lines, some at a time; never waits while it holds some.

    Raises:
        LineError: A line is too long; the lines before it have been yielded.
    """
    next_line = first_line
    window: list[bytes] = []
    window_bytes = 0
    # The beginning of a line whose end hasn't arrived yet.
    pieces: list[bytes] = []
    piece_bytes = 0
    while chunk := _read_some(source):
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        piece_bytes += len(first)
        for beginning in others:
            line = b"".join(pieces)
            window.append(line)
            window_bytes += len(line)
            pieces, piece_bytes = [beginning], len(beginning)
            if len(window) == WINDOW_LINES or window_bytes > _WINDOW_BYTES:
                yield window
                next_line += len(window)
                window, window_bytes = [], 0
        if window and (piece_bytes > _WINDOW_BYTES or not _has_more(source)):
            yield window
            next_line += len(window)
            window, window_bytes = [], 0
        if piece_bytes > _MAX_LINE_BYTES:
            raise LineError(
                next_line,
                f"more than {_MAX_LINE_BYTES >> 20} MiB without a line break",
                "is this text with one sentence per line?",
            )
    if piece_bytes:
        window.append(b"".join(pieces))
    if window:
        yield window


def _read_some(source: BinaryIO) -> bytes:
    """Waits for bytes and returns them; empty at the end."""
    some: bytes | None = getattr(source, "read1", source.read)(_READ_BYTES)
    if some or not _may_pause(source):
        return some or b""
    # A buffered reader can't tell a pause from the end; its raw stream returns None.
    raw = getattr(source, "raw", source)
    while (some := raw.read(_READ_BYTES)) is None:
        select.select([source], [], [])
    return some


def _may_pause(source: BinaryIO) -> bool:
    """Checks whether a read may return nothing before the end, because of another program."""
    try:
        return not os.get_blocking(source.fileno())
    except (AttributeError, OSError, ValueError):
        # Not a system file, or the system lacks this.
        return False


def _has_more(source: BinaryIO) -> bool:
    """Checks whether a read would return at once, as for a file or a string."""
    try:
        descriptor = source.fileno()
    except (AttributeError, UnsupportedOperation):
        return True
    try:
        return bool(select.select([descriptor], [], [], 0.0)[0])
    except (OSError, ValueError):
        # On Windows it only works for sockets: answer at once instead of waiting.
        return False


def write_lines(target: BinaryIO, lines: bytes, *, num_before: int) -> None:
    """Writes and flushes whole lines; a first Ctrl-C takes effect afterwards, a second at once.

    `num_before` counts the lines that were written before, for messages.

    Raises:
        BrokenPipeError: The reader has closed the stream.
        MtkitError: The system rejects the output.
    """
    try:
        with _finishing_first():
            _write_all(target, lines)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise MtkitError(
            f"can't write the output after {num_before:,} lines: {error.strerror or error}",
            "fix this, then run the same command again; it starts from the first line",
        ) from error


def _write_all(target: BinaryIO, lines: bytes) -> None:
    rest = memoryview(lines)
    while True:
        try:
            while rest:
                # Unbuffered (python -u), it may take a part; None means nothing.
                taken: int | None = target.write(rest)
                if taken is None:
                    select.select([], [target], [])
                rest = rest[taken or 0 :]
            target.flush()
        except BlockingIOError as full:
            # A pipe or terminal that another program made non-blocking.
            rest = rest[full.characters_written :]
            select.select([], [target], [])
        else:
            return


@contextmanager
def _finishing_first() -> Iterator[None]:
    """Delays a first Ctrl-C until the end."""
    previous = signal.getsignal(signal.SIGINT)
    if previous is None or threading.current_thread() is not threading.main_thread():
        # Python doesn't handle it, or another thread does.
        yield
        return
    received: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, previous)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if received:
            signal.raise_signal(signal.SIGINT)
