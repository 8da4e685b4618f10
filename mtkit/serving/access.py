"""Who may ask, how often, and how much."""

from collections import Counter
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from mtkit.serving.bodies import check_number
from mtkit.serving.faults import RequestError, busy
from mtkit.serving.keys import Key, KeyRing, RateLimiter
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


@dataclass(frozen=True)
class Caller:
    """Who asks.

    Attributes:
        name: A key's name, or an address; for the log.
        max_characters: Of one text.
    """

    name: str
    max_characters: int


class Access:
    """Lets callers in.

    Args:
        settings: Limits.
        keys: Who may ask; None for anybody.
    """

    def __init__(self, settings: Serving, keys: KeyRing | None) -> None:
        self._settings, self._keys = settings, keys
        self._limiter = RateLimiter()
        self._of_callers = WaitingBytes.of_callers(settings)
        self._of_strangers = WaitingBytes.of_strangers(settings)

    @property
    def needs_key(self) -> bool:
        """Whether nobody without a key may ask."""
        return self._keys is not None

    @property
    def num_waiting_bytes(self) -> int:
        """Bytes of requests that aren't answered yet."""
        return self._of_callers.num_bytes + self._of_strangers.num_bytes

    def count_bytes(self, scope: Scope) -> RequestBytes:
        """Returns what counts the bytes of a request, before any of them is read."""
        address = _find_address(scope)
        if self._keys is None:
            return RequestBytes(self._of_callers, address)
        key = self._keys.find(_read_head_key(Headers(scope=scope)))
        if key is None:
            return RequestBytes(self._of_strangers, address)
        return RequestBytes(self._of_callers, key.name)

    def is_known(self, waiting: RequestBytes) -> bool:
        """Checks whether who sends a request has shown a key, or needs none."""
        return waiting.budget is self._of_callers

    def require_key(self, request: Request) -> None:
        """Checks the key in a request's head, where callers need one, before its body is read.

        Raises:
            RequestError: There is no such key, or none was shown.
        """
        self._find_key(request, None, _find_address(request.scope))

    def reload(self) -> None:
        """Reads the keys again.

        Raises:
            MtkitError: Their file is damaged.
        """
        if self._keys is not None:
            self._keys.reload()

    def admit(self, request: Request, shown: str | None, *, cost: int = 1) -> Caller:
        """Returns who asks, whose request is counted.

        Args:
            request: The request; it may show a key in its head: `Authorization: Bearer KEY`.
            shown: A key in its body.
            cost: Requests that it counts as.

        Raises:
            RequestError: There is no such key, none was shown, or these are too many requests.
        """
        address = _find_address(request.scope)
        key = self._find_key(request, shown, address)
        per_minute, max_characters = (
            self._settings.requests_per_minute,
            self._settings.max_characters,
        )
        if key is not None and key.requests_per_minute is not None:
            per_minute = key.requests_per_minute
        if key is not None and key.max_characters is not None:
            max_characters = key.max_characters
        caller = Caller(key.name if key is not None else address, max_characters)
        request.state.caller = caller.name
        waiting = getattr(request.state, "waiting", None)
        if waiting is not None:
            waiting.move(self._of_callers, caller.name)
        self._limiter.spend(caller.name, cost, per_minute)
        return caller

    def _find_key(self, request: Request, shown: str | None, address: str) -> Key | None:
        if self._keys is None:
            return None
        shown = shown or _read_head_key(request.headers)
        # Wrong keys are counted too, so that nobody tries many.
        if not shown:
            self._limiter.spend(f"without {address}", 1, self._settings.requests_per_minute)
            raise RequestError(400, "Please contact the server operator to get an API key")
        key = self._keys.find(shown)
        if key is None:
            self._limiter.spend(f"without {address}", 1, self._settings.requests_per_minute)
            raise RequestError(403, "Invalid API key")
        return key


def _find_address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else "unknown"


def _read_head_key(headers: Headers) -> str:
    """Returns the key in a request's head; empty without one."""
    scheme, _, shown = headers.get("authorization", "").partition(" ")
    return shown.strip() if scheme.lower() == "bearer" else ""


def check_lengths(texts: list[str], caller: Caller, settings: Serving) -> None:
    """Checks that texts aren't too many or too long.

    Raises:
        RequestError: They are.
    """
    check_number(len(texts), settings.max_texts)
    for text in texts:
        if len(text) > caller.max_characters:
            raise RequestError(
                400,
                f"Invalid request: request ({len(text)}) exceeds text limit "
                f"({caller.max_characters})",
            )
