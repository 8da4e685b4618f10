"""Pauses between the starts of a process that keeps failing."""

import asyncio

_MAX_FAILURES = 4
"""Consecutive failures before the next start is delayed."""
_MAX_SECONDS = 30.0


class Backoff:
    """Counts consecutive failures, and doubles the pause with each one after the first few."""

    def __init__(self) -> None:
        self._num_failures, self._failed_at = 0, 0.0

    @property
    def is_delaying(self) -> bool:
        """Whether the process has failed so often that its starts are delayed."""
        return self._num_failures >= _MAX_FAILURES

    @property
    def seconds_left(self) -> float:
        """Seconds until the next start."""
        if not self.is_delaying:
            return 0.0
        seconds = min(2.0 ** (self._num_failures - _MAX_FAILURES + 1), _MAX_SECONDS)
        return max(0.0, self._failed_at + seconds - asyncio.get_running_loop().time())

    def note_failure(self) -> None:
        """Counts a failure."""
        self._num_failures += 1
        self._failed_at = asyncio.get_running_loop().time()

    def reset(self) -> None:
        """Forgets the failures, after a success."""
        self._num_failures = 0
