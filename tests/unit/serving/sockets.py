"""A server in this process, and connections to it."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from mtkit.serving.app import make_context
from mtkit.serving.context import ServerContext
from mtkit.serving.keys import KeyRing
from mtkit.serving.server import Server, open_socket
from mtkit.serving.settings import Serving

from .conftest import make_model


class Running:
    """A server in this process, and connections to it."""

    def __init__(self, keys: KeyRing | None = None, **limits: Any) -> None:
        self.context: ServerContext = make_context(
            [make_model("m")], Serving(log="none", **limits), keys
        )
        self.opened = open_socket("127.0.0.1", 0)
        self.port = self.opened.getsockname()[1]
        self.server = Server(self.context)
        self.task = asyncio.create_task(self.server.run_checked(self.opened))
        self.connections: list[Connection] = []

    async def __aenter__(self) -> "Running":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])
        self.opened.close()
        for connection in self.connections:
            connection.writer.close()
        await asyncio.sleep(0)

    @property
    def num_waiting(self) -> int:
        """Bytes that the guard counts."""
        return self.context.access.num_waiting_bytes

    async def connect(self, text: bytes = b"") -> "Connection":
        connection = Connection(*await asyncio.open_connection("127.0.0.1", self.port))
        connection.writer.write(text)
        self.connections.append(connection)
        return connection

    async def end(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await wait_until(self.refuses)

    async def refuses(self) -> bool:
        try:
            await self.connect()
        except ConnectionError:
            return True
        return False

    async def listens(self) -> bool:
        return not await self.refuses()


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def read(self) -> bytes:
        async with asyncio.timeout(30):
            return await self.reader.read()


async def wait_until(is_true: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while True:
            found = is_true()
            if await found if isinstance(found, Coroutine) else found:
                return
            await asyncio.sleep(0.01)
