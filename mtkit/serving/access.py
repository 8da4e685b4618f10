"""API keys, rate limits and memory budgets."""

from collections import Counter
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from mtkit.serving.bodies import check_number
from mtkit.serving.keys import ApiKey, KeyRing, RateLimiter
from mtkit.serving.request_errors import RequestError, busy
from mtkit.serving.settings import Serving

FORM_BYTES = 64 << 10
"""Allowance for a form's content around its file."""
_SMALL_BYTES = 64 << 10
"""This part of each request counts separately, so that large requests leave room for small ones."""
_MAX_SMALL_BYTES = 64 << 20
_TINY_BYTES = 4 << 10
"""Requests up to this size are never rejected: the number of connections limits them."""
_RETRY_SECONDS = 10


class WaitingBytes:
    """Bytes of requests that have arrived and aren't answered yet.

    Args:
        max_bytes: Limit for all requests, not counting their first 64 KiB each.
        max_of_caller: The same for one caller.
        advice: Advice to rejected callers.
    """

    def __init__(self, max_bytes: int, max_of_caller: int, advice: str) -> None:
        self._max_bytes, self._max_of_caller, self._advice = max_bytes, max_of_caller, advice
        self._max_small_bytes = min(max_bytes, _MAX_SMALL_BYTES)
        self._num_small: Counter[str] = Counter()
        self._num_large: Counter[str] = Counter()

    @classmethod
    def for_authenticated(cls, settings: Serving) -> "WaitingBytes":
        """Returns the budget of admitted callers; each has half of it."""
        total = settings.max_waiting_bytes
        largest = max(settings.max_file_bytes + FORM_BYTES, settings.max_body_bytes)
        return cls(total, max(total // 2, min(largest, total)), "try again soon")

    @classmethod
    def for_unauthenticated(cls, settings: Serving) -> "WaitingBytes":
        """Returns the budget of callers whose key is in a body that wasn't read yet."""
        largest = max(settings.max_file_bytes + FORM_BYTES, settings.max_body_bytes)
        total = min(max(2 * largest, _MAX_SMALL_BYTES), settings.max_waiting_bytes)
        return cls(
            total,
            max(total // 2, min(largest, total)),
            "give the key in the header: Authorization: Bearer KEY",
        )

    @property
    def num_bytes(self) -> int:
        """The bytes of all waiting requests."""
        return self._num_small.total() + self._num_large.total()

    def take(self, caller: str, num_before: int, num_bytes: int, *, refuses: bool = True) -> None:
        """Counts `num_bytes` of a request that had `num_before`.

        Raises:
            RequestError: The budget is exceeded, and `refuses`; the bytes count until they are
                given back.
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
            raise busy(f"too many requests are waiting; {self._advice}", _RETRY_SECONDS)

    def give_back(self, caller: str, num_bytes: int) -> None:
        """Subtracts a request's bytes."""
        small, large = _split(num_bytes)
        for counts, number in ((self._num_small, small), (self._num_large, large)):
            counts[caller] -= number
            if not counts[caller]:
                del counts[caller]


def _split(num_bytes: int) -> tuple[int, int]:
    """Returns a request's bytes that count as small, and those that count as large."""
    small = min(num_bytes, _SMALL_BYTES)
    return small, num_bytes - small


class RequestBytes:
    """The bytes of one request so far, in its sender's budget once the sender is known."""

    def __init__(self, budget: WaitingBytes, caller: str) -> None:
        self.budget, self.caller = budget, caller
        self.num_bytes = 0

    def take(self, num_bytes: int) -> None:
        """Counts bytes that have arrived; raises a RequestError if there are too many."""
        before, self.num_bytes = self.num_bytes, self.num_bytes + num_bytes
        self.budget.take(self.caller, before, num_bytes)

    def count_answer(self, num_bytes: int) -> None:
        """Counts bytes of the response, which stay in memory until the client reads them."""
        before, self.num_bytes = self.num_bytes, self.num_bytes + num_bytes
        self.budget.take(self.caller, before, num_bytes, refuses=False)

    def move(self, budget: WaitingBytes, caller: str) -> None:
        """Moves the bytes to the budget of the sender, who is known now."""
        if budget is not self.budget:
            self.close()
            self.budget, self.caller = budget, caller
            budget.take(caller, 0, self.num_bytes)

    def close(self) -> None:
        """Subtracts the bytes."""
        self.budget.give_back(self.caller, self.num_bytes)


@dataclass(frozen=True)
class Caller:
    """The sender of a request: a key's name, or an address; with the limit for one text."""

    name: str
    max_characters: int


class Access:
    """Admits callers; without `keys`, anyone."""

    def __init__(self, settings: Serving, keys: KeyRing | None) -> None:
        self._settings, self._keys = settings, keys
        self._limiter = RateLimiter()
        self._for_authenticated = WaitingBytes.for_authenticated(settings)
        self._for_unauthenticated = WaitingBytes.for_unauthenticated(settings)

    @property
    def needs_key(self) -> bool:
        """Whether callers need a key."""
        return self._keys is not None

    @property
    def num_waiting_bytes(self) -> int:
        """Bytes of requests that aren't answered yet."""
        return self._for_authenticated.num_bytes + self._for_unauthenticated.num_bytes

    def count_bytes(self, scope: Scope) -> RequestBytes:
        """Returns the counter of a request's bytes, before any of them is read."""
        address = _find_address(scope)
        if self._keys is None:
            return RequestBytes(self._for_authenticated, address)
        key = self._keys.find(_read_bearer_token(Headers(scope=scope)))
        if key is None:
            return RequestBytes(self._for_unauthenticated, address)
        return RequestBytes(self._for_authenticated, key.name)

    def is_known(self, waiting: RequestBytes) -> bool:
        """Checks that a request's sender has shown a key, or needs none."""
        return waiting.budget is self._for_authenticated

    def require_key(self, request: Request) -> None:
        """Checks the key in a request's headers, if callers need one, before its body is read."""
        self._find_key(request, None, _find_address(request.scope))

    def reload(self) -> None:
        """Reads the keys again."""
        if self._keys is not None:
            self._keys.reload()

    def admit(self, request: Request, shown: str | None, *, cost: int = 1) -> Caller:
        """Returns a request's caller, and counts it as `cost` requests.

        The key is in its headers (`Authorization: Bearer KEY`), or in its body (`shown`).

        Raises:
            RequestError: The key is unknown or missing, or there are too many requests.
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
            waiting.move(self._for_authenticated, caller.name)
        self._limiter.spend(caller.name, cost, per_minute)
        return caller

    def _find_key(self, request: Request, shown: str | None, address: str) -> ApiKey | None:
        if self._keys is None:
            return None
        shown = shown or _read_bearer_token(request.headers)
        # Wrong keys also count, so that no caller can try many.
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


def _read_bearer_token(headers: Headers) -> str:
    """Returns the bearer token in a request's headers; empty without one."""
    scheme, _, shown = headers.get("authorization", "").partition(" ")
    return shown.strip() if scheme.lower() == "bearer" else ""


def check_lengths(texts: list[str], caller: Caller, settings: Serving) -> None:
    """Checks that texts aren't too many or too long."""
    check_number(len(texts), settings.max_texts)
    for text in texts:
        if len(text) > caller.max_characters:
            raise RequestError(
                400,
                f"Invalid request: request ({len(text)}) exceeds text limit "
                f"({caller.max_characters})",
            )
