"""Collects lines that arrive one by one while earlier ones are answered.

Separate from `byte_lines.py`: asyncio takes a hundredth of a second to import.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from typing import TypeVar

Line = TypeVar("Line")


async def take_arrivals(
    lines: AsyncIterable[Line], window_lines: int
) -> AsyncGenerator[list[Line], None]:
    """Yields the lines that have arrived since the last time, as soon as there are any.

    They are collected while the caller works on earlier ones, at most `window_lines` ahead. Close
    it (`aclosing`), so that collecting ends with the caller. An error of `lines` is raised after
    the lines before it have been yielded.
    """
    arrived: list[Line] = []
    has_news, has_room = asyncio.Event(), asyncio.Event()

    async def collect() -> None:
        async for line in lines:
            arrived.append(line)
            has_news.set()
            if len(arrived) >= window_lines:
                has_room.clear()
                await has_room.wait()

    collecting = asyncio.create_task(collect())
    collecting.add_done_callback(lambda _: has_news.set())
    try:
        while arrived or not collecting.done():
            await has_news.wait()
            has_news.clear()
            window = arrived.copy()
            arrived.clear()
            has_room.set()
            if window:
                yield window
        await collecting
    finally:
        collecting.cancel()
        # Waits for its end, and retrieves its exception: otherwise asyncio would warn.
        await asyncio.gather(collecting, return_exceptions=True)
