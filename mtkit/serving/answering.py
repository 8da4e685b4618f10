"""A handler's work: ended when its caller leaves, or when it takes too long."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

from mtkit.serving.faults import RequestError
from mtkit.serving.metrics import Metrics

Result = TypeVar("Result")


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
    handling = asyncio.current_task()
    assert handling is not None
    has_left = is_over = False

    def leave(leaving: "asyncio.Task[None]") -> None:
        nonlocal has_left
        if not is_over and not leaving.cancelled():
            has_left = True
            handling.cancel()

    leaving = asyncio.ensure_future(_wait_for_end(request.receive))
    leaving.add_done_callback(leave)
    try:
        async with asyncio.timeout(seconds) as limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise
        raise RequestError(504, f"no translation within {seconds:g} seconds") from None
    except asyncio.CancelledError:
        if not has_left or handling.uncancel():
            raise
        metrics.left.inc()
        raise ClientDisconnect from None
    finally:
        is_over = True
        leaving.cancel()


async def _wait_for_end(receive: Any) -> None:
    message: Any = {}
    while message.get("type") != "http.disconnect":
        receiving: Awaitable[Any] = receive()
        message = await receiving
