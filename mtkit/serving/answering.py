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
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_wait_for_end(request.receive))
    try:
        await asyncio.wait([working, leaving], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        if leaving.done():
            metrics.left.inc()
            raise ClientDisconnect
        raise RequestError(504, f"no translation within {seconds:g} seconds")
    finally:
        leaving.cancel()
        working.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _wait_for_end(receive: Any) -> None:
    message: Any = {}
    while message.get("type") != "http.disconnect":
        receiving: Awaitable[Any] = receive()
        message = await receiving
