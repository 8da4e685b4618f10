"""How many bytes of requests may wait, in all and of each caller."""

from collections import Counter

from mtkit.serving.faults import busy
from mtkit.serving.settings import Serving

FORM_BYTES = 64 << 10
"""What a form has around its file."""
_SMALL_BYTES = 64 << 10
"""So much of each request is counted apart, so that large requests leave room for small ones."""
_MAX_SMALL_BYTES = 64 << 20
_TINY_BYTES = 4 << 10
"""A request of so much is never refused: there can't be more of them than connections."""
_RETRY_SECONDS = 10


class WaitingBytes:
    """Bytes of requests that have come and aren't answered yet.

    Args:
        max_bytes: Of all requests beyond their first 64 KiB.
        max_of_caller: Of those of one caller.
        advice: What a caller does who is refused.
    """

    def __init__(self, max_bytes: int, max_of_caller: int, advice: str) -> None:
        self._max_bytes, self._max_of_caller, self._advice = max_bytes, max_of_caller, advice
        self._max_small_bytes = min(max_bytes, _MAX_SMALL_BYTES)
        self._num_small: Counter[str] = Counter()
        self._num_large: Counter[str] = Counter()

    @classmethod
    def of_callers(cls, settings: Serving) -> "WaitingBytes":
        """Returns the budget of callers that are let in; each has half of it."""
        total = settings.max_waiting_bytes
        largest = max(settings.max_file_bytes + FORM_BYTES, settings.max_body_bytes)
        return cls(total, max(total // 2, min(largest, total)), "try again soon")

    @classmethod
    def of_strangers(cls, settings: Serving) -> "WaitingBytes":
        """Returns the budget of callers whose key is in a body that is yet to be read."""
        largest = max(settings.max_file_bytes + FORM_BYTES, settings.max_body_bytes)
        total = min(max(2 * largest, _MAX_SMALL_BYTES), settings.max_waiting_bytes)
        return cls(
            total,
            max(total // 2, min(largest, total)),
            "give the key in the header: Authorization: Bearer KEY",
        )

    @property
    def num_bytes(self) -> int:
        """All that wait."""
        return self._num_small.total() + self._num_large.total()

    def take(self, caller: str, num_before: int, num_bytes: int, *, refuses: bool = True) -> None:
        """Counts bytes of a request.

        Args:
            caller: Whose they are.
            num_before: Bytes of the request that were counted before.
            num_bytes: These.
            refuses: Whether they are refused where they are too many.

        Raises:
            RequestError: They are too many.
        """
        small, large = _split(num_before + num_bytes)
        self._num_small[caller] += small - _split(num_before)[0]
        self._num_large[caller] += large - _split(num_before)[1]
        if not refuses or num_before + num_bytes <= _TINY_BYTES:
            return
        if (
            self._num_small.total() > self._max_small_bytes
            or self._num_small[caller] > max(self._max_small_bytes // 2, _SMALL_BYTES)
            or self._num_large.total() > self._max_bytes
            or self._num_large[caller] > self._max_of_caller
        ):
            raise busy(f"too much is waiting; {self._advice}", _RETRY_SECONDS)

    def give_back(self, caller: str, num_bytes: int) -> None:
        """Takes a request's bytes out of the count."""
        small, large = _split(num_bytes)
        for counts, number in ((self._num_small, small), (self._num_large, large)):
            counts[caller] -= number
            if not counts[caller]:
                del counts[caller]


def _split(num_bytes: int) -> tuple[int, int]:
    """Returns how many of a request's bytes are counted as small, and how many as large."""
    small = min(num_bytes, _SMALL_BYTES)
    return small, num_bytes - small


class RequestBytes:
    """The bytes of one request, in the budget of who sends it.

    Args:
        budget: The budget.
        caller: Who sends it, as far as is known.

    Attributes:
        budget: The budget.
        caller: Who sends it, as far as is known.
        num_bytes: What has come of it.
    """

    def __init__(self, budget: WaitingBytes, caller: str) -> None:
        self.budget, self.caller = budget, caller
        self.num_bytes = 0

    def take(self, num_bytes: int) -> None:
        """Counts bytes that have come.

        Raises:
            RequestError: They are too many.
        """
        before, self.num_bytes = self.num_bytes, self.num_bytes + num_bytes
        self.budget.take(self.caller, before, num_bytes)

    def count_answer(self, num_bytes: int) -> None:
        """Counts bytes of the answer, which wait until they are read."""
        before, self.num_bytes = self.num_bytes, self.num_bytes + num_bytes
        self.budget.take(self.caller, before, num_bytes, refuses=False)

    def move(self, budget: WaitingBytes, caller: str) -> None:
        """Counts them in another budget: their sender is known now.

        Raises:
            RequestError: They are too many there.
        """
        if budget is not self.budget:
            self.close()
            self.budget, self.caller = budget, caller
            budget.take(caller, 0, self.num_bytes)

    def close(self) -> None:
        """Takes them out of the count."""
        self.budget.give_back(self.caller, self.num_bytes)
