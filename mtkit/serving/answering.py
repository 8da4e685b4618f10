"""A handler's work: ended when its caller leaves, or when it takes too long."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from mtkit.serving.faults import RequestError
from mtkit.serving.metrics import Metrics

Result = TypeVar("Result")

_PATIENCE_SECONDS = 0.5
"""From then on it is looked whether the caller leaves: most have their answer sooner."""


async def answer_in_time(
    request: Request,
    work: Coroutine[Any, Any, Result],
    *,
    seconds: float,
    metrics: Metrics,
) -> Result:
    """Returns what work gives, unless the caller leaves first or it takes too long.

    Args:
        request: The caller's, whose body has been read.
        work: What is done for it; cancelled where nobody waits any more.
        seconds: How long it may take.
        metrics: Where those who leave are counted.

    Raises:
        RequestError: It took too long.
        ClientDisconnect: The caller has left.
    """
    task = asyncio.current_task()
    assert task is not None
    watch = _Watch(task, request.receive, seconds)
    try:
        return await work
    except asyncio.CancelledError:
        # The server's own end goes before.
        if watch.fault is None or task.uncancel():
            raise
        if isinstance(watch.fault, ClientDisconnect):
            metrics.left.inc()
        raise watch.fault from None
    finally:
        watch.stop()


class _Watch:
    """Cancels a task whose caller leaves, or whose time is over.

    Args:
        task: The task.
        receive: Tells when the caller leaves.
        seconds: How long it may take.

    Attributes:
        fault: Why it was cancelled; None where it wasn't, or not from here.
    """

    def __init__(self, task: "asyncio.Task[Any]", receive: Receive, seconds: float) -> None:
        self.fault: Exception | None = None
        self._is_over = False
        self._task, self._receive, self._seconds = task, receive, seconds
        self._loop = asyncio.get_running_loop()
        self._ends_at = self._loop.time() + seconds
        self._leaving: asyncio.Task[None] | None = None
        is_long = seconds > _PATIENCE_SECONDS
        self._timer = self._loop.call_later(
            min(seconds, _PATIENCE_SECONDS), self._look if is_long else self._end_late
        )

    def stop(self) -> None:
        """Leaves the task alone from now on."""
        self._is_over = True
        self._timer.cancel()
        if self._leaving is not None:
            self._leaving.cancel()

    def _look(self) -> None:
        self._timer = self._loop.call_at(self._ends_at, self._end_late)
        self._leaving = self._loop.create_task(self._wait_for_end())
        self._leaving.add_done_callback(self._end_left)

    async def _wait_for_end(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def _end_late(self) -> None:
        self._end(RequestError(504, f"no translation within {self._seconds:g} seconds"))

    def _end_left(self, _: "asyncio.Task[None]") -> None:
        self._end(ClientDisconnect())

    def _end(self, fault: Exception) -> None:
        if not self._is_over and self.fault is None:
            self.fault = fault
            self._task.cancel()
