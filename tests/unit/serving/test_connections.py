"""Connections of strangers who mean harm: what they send, hold back, and don't read."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from mtkit.serving.keys import KeyRing, add_key
from mtkit.serving.server import bounded_protocol
from mtkit.serving.settings import Serving

from .conftest import FakeWorker
from .sockets import Running, wait_until

_GET = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
_BODY = b'{"q": "a", "source": "en", "target": "de"}'
_HEAD = b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
_LENGTH = b"Content-Length: %d\r\n\r\n"
_CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
_CHUNK = b"%x\r\n%s\r\n" % (len(_BODY), _BODY)

Attack = Callable[[Running], Coroutine[Any, Any, None]]


@pytest.fixture
def attack(workers: type[FakeWorker], monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that runs an attack: `attack(act, header_seconds=0.2)`."""

    def run(act: Attack, keys: KeyRing | None = None, **limits: Any) -> None:
        async def main() -> None:
            async with Running(keys, **limits) as running:
                await wait_until(running.listens)
                await act(running)

        asyncio.run(main())

    return run


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b"GET / HTT", id="another head that never ends"),
        pytest.param(b"0123456789", id="the rest of a body that was answered"),
        pytest.param(b"01234", id="a part of a body that was answered"),
    ],
)
def test_a_connection_that_was_answered_is_not_held_for_ever(
    attack: Callable[..., None], rest: bytes
) -> None:
    async def act(running: Running) -> None:
        body = b"Content-Length: 10\r\n\r\n" if rest.startswith(b"0") else b"\r\n"
        connection = await running.connect(_GET.removesuffix(b"\r\n") + body)
        await connection.reader.readuntil(b"}")
        connection.writer.write(rest)
        assert await connection.read() == b""

    attack(act, header_seconds=0.2)


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(_GET.removesuffix(b"\r\n") + b"a: b\r\n" * 300, id="many headers"),
        pytest.param(_GET.removesuffix(b"\r\n") + b"a: " + b"b" * 400_000, id="a long header"),
        pytest.param(b"GET /" + b"a" * 400_000, id="a long path"),
        pytest.param(
            _GET.removesuffix(b"\r\n") + b"a: " + b"b" * 33_000 + b"\r\n\r\n", id="all at once"
        ),
    ],
)
def test_endless_heads_are_cut_off(attack: Callable[..., None], head: bytes) -> None:
    async def act(running: Running) -> None:
        connection = await running.connect(head)
        found = b""
        with suppress(ConnectionResetError):
            found = await connection.read()
        assert found == b"" or found.startswith(b"HTTP/1.1 400")

    # Long before the time of a head is over.
    attack(act, header_seconds=1_000.0)


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"Content-Length: 5\r\n" + _CHUNKED, id="two lengths"),
        pytest.param(b"Content-Length: 5\r\n" + _LENGTH % 6, id="two that differ"),
        pytest.param(b"Transfer-Encoding: xchunked\r\n\r\n", id="an unknown coding"),
        pytest.param(b"Transfer-Encoding: gzip, chunked\r\n\r\n", id="two codings"),
        pytest.param(b"Content-Encoding: gzip\r\n" + _LENGTH % 5, id="a compressed body"),
        pytest.param(b"Transfer-Encoding : chunked\r\n\r\n", id="space before the colon"),
        pytest.param(b"Content-Length: +5\r\n\r\n", id="a length with a sign"),
        pytest.param(b"a: b\nTransfer-Encoding: chunked\r\n\r\n", id="a line feed alone"),
    ],
)
def test_heads_that_a_proxy_may_read_otherwise_are_refused(
    attack: Callable[..., None], head: bytes
) -> None:
    async def act(running: Running) -> None:
        connection = await running.connect(_HEAD + head + b"0\r\n\r\n" + _GET)
        assert (await connection.read()).startswith(b"HTTP/1.1 400")

    attack(act)


def test_a_trailer_is_no_header(attack: Callable[..., None], tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys.toml", "a")
    shown = f"authorization: Bearer {key}\r\n".encode()

    async def act(running: Running) -> None:
        for head, trailer, status in ((shown, b"", b"200"), (b"", shown, b"400")):
            connection = await running.connect(
                _HEAD + head + _CHUNKED + _CHUNK + b"0\r\n" + trailer + b"\r\n"
            )
            answer = await connection.reader.readuntil(b"}")
            assert answer.startswith(b"HTTP/1.1 " + status)

    attack(act, KeyRing(tmp_path / "keys.toml"))


def test_who_does_not_read_is_cut_off(attack: Callable[..., None]) -> None:
    async def act(running: Running) -> None:
        content = b"x" * 30_000_000
        address = await running.context.files.add(content, "a.txt")
        path = f"GET /download_file/{address} HTTP/1.1\r\nHost: a\r\n\r\n"
        connection = await running.connect(path.encode())
        await connection.reader.readuntil(b"\r\n\r\n")
        connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await wait_until(lambda: not running.server.server_state.connections)
        connection.writer.transport.resume_reading()  # type: ignore[attr-defined]
        found = b""
        with suppress(ConnectionResetError):
            found = await connection.read()
        assert len(found) < len(content)

    attack(act, header_seconds=1.0, body_seconds=0.3)


def test_a_slow_reader_that_has_read_all_may_ask_again() -> None:
    async def act() -> None:
        connection = object.__new__(bounded_protocol(Serving(body_seconds=0.05)))
        connection.loop, connection.transport = asyncio.get_running_loop(), Mock()
        connection.cycle = None
        connection.transport.get_write_buffer_size.return_value = 1
        # The time for its next request ends while it reads the rest of an answer.
        connection._end()
        connection.cycle = Mock(response_complete=False)
        connection._watch()
        await asyncio.sleep(0.1)
        connection.transport.abort.assert_not_called()

    asyncio.run(act())


def test_few_requests_wait_behind_another(
    attack: Callable[..., None], workers: type[FakeWorker]
) -> None:
    async def act(running: Running) -> None:
        workers.started[0].is_held = True
        connection = await running.connect(_HEAD + _LENGTH % len(_BODY) + _BODY + _GET * 100)
        assert (await connection.read()).startswith(b"HTTP/1.1 400")

    attack(act)


def test_all_bodies_together_are_bounded(attack: Callable[..., None]) -> None:
    async def act(running: Running) -> None:
        body = _BODY + b" " * 5_000
        request = _HEAD + b"Connection: close\r\n" + _LENGTH % len(body) + body
        holding = await running.connect(_HEAD + _LENGTH % 20_000 + b" " * 9_000)
        await wait_until(lambda: running.num_waiting == 9_000)
        assert (await (await running.connect(request)).read()).startswith(b"HTTP/1.1 503")
        holding.writer.close()
        await wait_until(lambda: running.num_waiting == 0)
        assert (await (await running.connect(request)).read()).startswith(b"HTTP/1.1 200")

    attack(act, max_waiting_bytes=10_000)


def test_a_head_with_two_hosts_is_refused(attack: Callable[..., None]) -> None:
    # RFC 9112, 3.2: a proxy in front may have taken the other.
    async def act(running: Running) -> None:
        connection = await running.connect(_GET.replace(b"Host: a", b"Host: a\r\nhost: b"))
        assert (await connection.read()).startswith(b"HTTP/1.1 400 ")

    attack(act)


def test_chunks_of_an_old_protocol_are_refused(attack: Callable[..., None]) -> None:
    # RFC 9112, 6.1: such a message is faulty.
    async def act(running: Running) -> None:
        head = _HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + _CHUNKED
        connection = await running.connect(head + b"0\r\n\r\n")
        assert (await connection.read()).startswith(b"HTTP/1.1 400 ")

    attack(act)


@pytest.mark.parametrize("is_split", [False, True])
def test_a_body_with_a_wish_for_http_2_is_read(
    attack: Callable[..., None], *, is_split: bool
) -> None:
    # As Java's HttpClient and `curl --http2` ask.
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n"

    async def act(running: Running) -> None:
        head = _HEAD + upgrade + _LENGTH % len(_BODY)
        connection = await running.connect(head if is_split else head + _BODY)
        if is_split:
            await asyncio.sleep(0.05)
            connection.writer.write(_BODY)
        answer = await connection.reader.readuntil(b"}")
        assert answer.startswith(b"HTTP/1.1 200")
        connection.writer.write(_GET)
        assert (await connection.reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")

    attack(act)


def test_who_sends_all_of_a_body_first_gets_its_refusal(attack: Callable[..., None]) -> None:
    async def act(running: Running) -> None:
        body = b" " * 8_000_000
        connection = await running.connect(_HEAD + _LENGTH % len(body))
        for start in range(0, len(body), 1_000_000):
            connection.writer.write(body[start : start + 1_000_000])
            await connection.writer.drain()
        assert (await connection.reader.readuntil(b"}")).startswith(b"HTTP/1.1 413")

    attack(act, max_body_bytes=10_000)
