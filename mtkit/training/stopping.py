"""Ctrl-C and SIGTERM: a request to stop, which training grants at the end of an update."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_request() -> Iterator[Callable[[], bool]]:
    """Yields a check that Ctrl-C or SIGTERM has come; a second Ctrl-C ends at once."""
    received: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        received.append(number)
        # A batch system may send SIGTERM to each process and again through the launcher.
        if number == signal.SIGINT:
            signal.signal(number, previous[signal.SIGINT])

    previous = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
