"""Bytes into a stream: whole lines, or a fault that says how many."""

import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import BinaryIO

from mtkit.errors import MtkitError


def write_lines(target: BinaryIO, lines: bytes, *, num_before: int) -> None:
    """Writes whole lines into a stream; a Ctrl-C meanwhile is heard thereafter, a second at once.

    Args:
        target: Where they go; it is flushed.
        lines: They, each with its end.
        num_before: Lines that were written before, for messages.

    Raises:
        BrokenPipeError: Nobody reads any more.
        MtkitError: The system refuses to take them.
    """
    try:
        with _finishing_first():
            _write_all(target, lines)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise MtkitError(
            f"can't write the output after {num_before:,} lines: {error.strerror or error}",
            "mend that, then give the same command again: it begins with the first line",
        ) from error


def _write_all(target: BinaryIO, lines: bytes) -> None:
    rest = memoryview(lines)
    while True:
        try:
            while rest:
                # Without a buffer (python -u) some of it may be taken, and None says nothing was.
                taken: int | None = target.write(rest)
                if taken is None:
                    select.select([], [target], [])
                rest = rest[taken or 0 :]
            target.flush()
        except BlockingIOError as full:
            # A pipe or terminal that another program has made answer at once.
            rest = rest[full.characters_written :]
            select.select([], [target], [])
        else:
            return


@contextmanager
def _finishing_first() -> Iterator[None]:
    """Lets a first Ctrl-C wait until the end."""
    previous = signal.getsignal(signal.SIGINT)
    if previous is None or threading.current_thread() is not threading.main_thread():
        # It isn't Python's to handle, or is heard by another thread.
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
