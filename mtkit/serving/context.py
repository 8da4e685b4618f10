"""The parts of a server that request handlers use."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from mtkit.serving.access import Access
from mtkit.serving.bodies import Body, parse_body
from mtkit.serving.catalogue import Catalogue
from mtkit.serving.metrics import Metrics
from mtkit.serving.request_errors import RequestError
from mtkit.serving.settings import Serving
from mtkit.serving.stored_files import FileStore
from mtkit.serving.text_pools import TextProcesses
from mtkit.serving.text_tasks import ParseBody
from mtkit.serving.translate_texts import TextTranslation

Result = TypeVar("Result")

_PATIENCE_SECONDS = 0.5
"""Disconnects are only detected after this time: most responses are faster."""
_QUICK_BYTES = 32 << 10
"""A body up to this size is parsed in milliseconds."""


class _Watchdog:
    """Cancels a task after a timeout, or when its caller leaves; `fault` says which, or is None."""

    def __init__(self, task: "asyncio.Task[Any]", receive: Receive, seconds: float) -> None:
        self.fault: Exception | None = None
        self._is_over = False
        self._task, self._receive, self._seconds = task, receive, seconds
        self._loop = asyncio.get_running_loop()
        self._ends_at = self._loop.time() + seconds
        self._leaving: asyncio.Task[None] | None = None
        is_long = seconds > _PATIENCE_SECONDS
        self._timer = self._loop.call_later(
            min(seconds, _PATIENCE_SECONDS),
            self._wait_for_disconnect if is_long else self._on_timeout,
        )

    def stop(self) -> None:
        """Stops watching the task."""
        self._is_over = True
        self._timer.cancel()
        if self._leaving is not None:
            self._leaving.cancel()

    def _wait_for_disconnect(self) -> None:
        self._timer = self._loop.call_at(self._ends_at, self._on_timeout)
        self._leaving = self._loop.create_task(self._wait_for_end())
        self._leaving.add_done_callback(self._on_disconnect)

    async def _wait_for_end(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def _on_timeout(self) -> None:
        self._end(RequestError(504, f"no translation within {self._seconds:g} seconds"))

    def _on_disconnect(self, _: "asyncio.Task[None]") -> None:
        self._end(ClientDisconnect())

    def _end(self, fault: Exception) -> None:
        if not self._is_over and self.fault is None:
            self.fault = fault
            self._task.cancel()


@dataclass(frozen=True)
class ServerContext:
    """A server's parts; `processes` handle untrusted texts."""

    settings: Serving
    catalogue: Catalogue
    translation: TextTranslation
    processes: TextProcesses
    access: Access
    files: FileStore
    metrics: Metrics

    async def read_body(self, request: Request, kind: type[Body] | None) -> Any:
        """Returns a request's body; another process parses a long one.

        `kind` is None for an `UploadForm`.
        """
        content = await request.body()
        # Many pieces were joined: other tasks run before they are copied again.
        await asyncio.sleep(0)
        content_type = request.headers.get("content-type", "")
        max_texts = self.settings.max_texts
        task = ParseBody(content, content_type, request.url.query, kind, max_texts)
        if len(content) <= _QUICK_BYTES:
            return parse_body(content, content_type, task.query, kind, max_texts)
        sender = request.state.waiting
        try:
            async with asyncio.timeout(self.settings.request_seconds):
                return await self.processes.parse(
                    task, sender.caller, is_known=self.access.is_known(sender)
                )
        except TimeoutError as error:
            raise RequestError(504, "the request could not be read in time") from error

    async def answer_in_time(self, request: Request, work: Coroutine[Any, Any, Result]) -> Result:
        """Returns the result of work, which is cancelled on a timeout or when the caller leaves.

        Raises:
            RequestError: Timeout.
            ClientDisconnect: The caller has left.
        """
        task = asyncio.current_task()
        assert task is not None
        watch = _Watchdog(task, request.receive, self.settings.request_seconds)
        try:
            return await work
        except asyncio.CancelledError:
            # The server's own shutdown takes precedence.
            if watch.fault is None or task.uncancel():
                raise
            if isinstance(watch.fault, ClientDisconnect):
                self.metrics.left.inc()
            raise watch.fault from None
        finally:
            watch.stop()

    def note(self, request: Request, texts: list[str]) -> None:
        """Adds the request's size to the log line, and its texts only if the settings say so."""
        request.state.texts, request.state.characters = len(texts), sum(map(len, texts))
        if self.settings.log_texts:
            request.state.logged = texts
