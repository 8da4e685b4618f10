"""Who may ask, how often, and how much."""

from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from mtkit.serving.bodies import check_number
from mtkit.serving.faults import RequestError
from mtkit.serving.keys import Key, KeyRing, RateLimiter
from mtkit.serving.settings import Serving
from mtkit.serving.waiting_bytes import RequestBytes, WaitingBytes


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
