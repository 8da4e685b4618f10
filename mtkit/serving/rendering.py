"""JSON answers, rendered and sent piece by piece."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_BYTES_AT_ONCE = 256 << 10


def to_json(content: Any) -> bytes:
    """Returns content as JSON."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


async def to_chunks(content: Mapping[str, object]) -> list[bytes]:
    """Returns an object as JSON in pieces; other tasks run in between.

    Bytes in its lists are already JSON.
    """
    pieces: list[bytes] = []
    short, num_bytes = [], 0
    for piece in _list_pieces(content):
        short.append(piece)
        num_bytes += len(piece)
        if num_bytes > _BYTES_AT_ONCE:
            pieces.append(b"".join(short))
            short, num_bytes = [], 0
            await asyncio.sleep(0)
    return [*pieces, b"".join(short)]


def _list_pieces(content: Mapping[str, object]) -> Any:
    for index, (key, value) in enumerate(content.items()):
        yield b"%s%s:" % (b"," if index else b"{", to_json(key))
        if not isinstance(value, list):
            yield to_json(value)
            continue
        for number, item in enumerate(value):
            yield b"," if number else b"["
            yield item if isinstance(item, bytes) else to_json(item)
        yield b"]" if value else b"[]"
    yield b"}" if content else b"{}"


class JsonChunks(Response):
    """A JSON response sent in chunks, each once the previous one is accepted."""

    media_type = "application/json"

    def __init__(self, pieces: Sequence[bytes]) -> None:
        super().__init__()
        self.headers["content-length"] = str(sum(map(len, pieces)))
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it."""
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
