"""Limits on every request's body, headers of every response, and the request log."""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mtkit.serving.access import FORM_BYTES, Access, RequestBytes
from mtkit.serving.metrics import Metrics
from mtkit.serving.request_errors import RequestError, busy, log_bug
from mtkit.serving.settings import Serving

_RETRY_SECONDS = 10
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        b"connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    ),
]


def error_response(error: RequestError) -> JSONResponse:
    """Returns the response for an error."""
    content: dict[str, object] = {"error": error.message}
    if error.line is not None:
        content["line"] = error.line
    return JSONResponse(content, error.status, headers=error.headers)


class RequestGuard:
    """The outermost middleware: all others only see bodies within the limits."""

    def __init__(self, app: ASGIApp, settings: Serving, metrics: Metrics, access: Access) -> None:
        self._app, self._settings, self._metrics, self._access = app, settings, metrics, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at = time.perf_counter()
        status = 0
        scope.setdefault("state", {})
        waiting = scope["state"]["waiting"] = self._access.count_bytes(scope)

        async def send_noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                waiting.count_answer(_measure_answer(message["headers"]))
                present = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(pair for pair in _HEADERS if pair[0] not in present),
                ]
                if b"cache-control" not in present:
                    message["headers"].append((b"cache-control", b"no-store"))
            await send(message)

        bounded = _BoundedBody(
            scope, receive, self._max_bytes(scope), self._settings.body_seconds, waiting
        )
        try:
            await self._app(scope, bounded, send_noted)
        except RequestError as error:
            if not status:
                await error_response(error)(scope, receive, send_noted)
        except asyncio.CancelledError:
            # The timeout after SIGTERM is over.
            if not status:
                stopping = busy("the server is stopping", _RETRY_SECONDS)
                await error_response(stopping)(scope, receive, send_noted)
            raise
        except Exception as error:  # noqa: BLE001  the last line of defence: it is logged, once
            log_bug(error)
            if not status:
                failed = RequestError(500, "internal error")
                await error_response(failed)(scope, receive, send_noted)
        finally:
            waiting.close()
            self._note(scope, status, time.perf_counter() - started_at)

    def _max_bytes(self, scope: Scope) -> int:
        if scope["path"].endswith("/translate_file"):
            return max(self._settings.max_file_bytes, 0) + FORM_BYTES
        return self._settings.max_body_bytes

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        # Only names of routes: paths are untrusted input.
        route = getattr(scope.get("route"), "path", "unknown")
        self._metrics.requests.labels(route, str(status)).inc()
        self._metrics.request_seconds.labels(route).observe(seconds)
        if self._settings.log == "none":
            return
        state = scope["state"]
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "caller": state.get("caller", (scope.get("client") or ["unknown"])[0]),
            "method": scope["method"],
            "route": route,
            "status": status,
            "seconds": round(seconds, 4),
            **{key: state[key] for key in ("texts", "characters") if key in state},
        }
        if self._settings.log == "json":
            if self._settings.log_texts and "logged" in state:
                line["logged"] = state["logged"]
            print(json.dumps(line, ensure_ascii=True), file=sys.stderr)
        else:
            print(*line.values(), file=sys.stderr)


def _measure_answer(headers: Sequence[tuple[bytes, bytes]]) -> int:
    """Returns the bytes of a response that stay in memory until the client reads it."""
    known = dict(headers)
    length = known.get(b"content-length", b"0")
    is_json = known.get(b"content-type", b"").startswith(b"application/json")
    return int(length) if is_json and length.isdigit() else 0


class _BoundedBody:
    """A request's body, with a timeout and a maximum length."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        max_bytes: int,
        seconds: float,
        waiting: RequestBytes,
    ) -> None:
        self._receive, self._max_bytes, self._waiting = receive, max_bytes, waiting
        self._ends_at = asyncio.get_running_loop().time() + seconds
        self._is_complete = self._has_expired = False
        length = dict(scope["headers"]).get(b"content-length", b"")
        self._is_announced_too_long = length.isdigit() and int(length) > max_bytes

    async def __call__(self) -> Message:
        if self._is_announced_too_long:
            raise self._too_long()
        if self._is_complete:
            # The caller's disconnect, which may come much later.
            return await self._receive()
        task = asyncio.current_task()
        assert task is not None
        # asyncio.timeout_at takes four times as long, and almost all bodies have arrived.
        timer = asyncio.get_running_loop().call_at(self._ends_at, self._expire, task)
        try:
            message = await self._receive()
        except asyncio.CancelledError:
            if not self._has_expired or task.uncancel():
                raise
            raise RequestError(408, "the request's body did not arrive in time") from None
        finally:
            timer.cancel()
        if message["type"] == "http.request":
            self._waiting.take(len(message.get("body", b"")))
            self._is_complete = not message.get("more_body", False)
            if self._waiting.num_bytes > self._max_bytes:
                raise self._too_long()
        return message

    def _expire(self, task: "asyncio.Task[Any]") -> None:
        self._has_expired = True
        task.cancel()

    def _too_long(self) -> RequestError:
        return RequestError(413, f"the request is larger than {self._max_bytes:,} bytes")
