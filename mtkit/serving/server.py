"""Runs the application with uvicorn: addresses, connections and signals."""

import asyncio
import errno
import gc
import ipaddress
import re
import resource
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mtkit.console import say, warn
from mtkit.errors import MtkitError
from mtkit.serving.app import make_app
from mtkit.serving.context import ServerContext
from mtkit.serving.settings import Serving

_MAX_HEAD_BYTES = 32 << 10
_MAX_HEADERS = 200
_MAX_PIPELINED = 16
_UPGRADE = re.compile(rb"\nupgrade(?=[ \t]*:)", re.IGNORECASE)
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
_BACKLOG = 2_048


class _RefusedError(Exception):
    """Makes uvicorn respond with 400 and close the connection."""


def bounded_protocol(settings: Serving) -> type[HttpToolsProtocol]:
    """Returns uvicorn's protocol with a server's limits."""

    class Bounded(HttpToolsProtocol):
        """Closes connections that send no request or an endless one, or don't read the response."""

        _deadline: asyncio.TimerHandle | None = None
        _stalled: asyncio.TimerHandle | None = None
        _is_in_head = False
        _num_bytes = 0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            if len(self.connections) >= settings.max_connections:
                transport.abort()
                return
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            is_head = self._is_in_head or not self._is_busy()
            super().data_received(_ignore_upgrade(data) if is_head else data)
            self._num_bytes = self._num_bytes + len(data) if is_head else 0
            if self._is_in_head and self._num_bytes > _MAX_HEAD_BYTES:
                self.transport.abort()
            # The rest of a body that was answered early is read and dropped until the timeout: a
            # client that first sends all of it would lose the answer (RFC 9112, section 9.6).
            self._watch()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._is_in_head, self._num_bytes = True, 0

        def on_header(self, name: bytes, value: bytes) -> None:
            # Trailers come after the head and are ignored.
            if self._is_in_head:
                if len(self.headers) >= _MAX_HEADERS:
                    raise _RefusedError
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._is_in_head = False
            if len(self.pipeline) >= _MAX_PIPELINED or _is_faulty(self.url, self.headers):
                raise _RefusedError
            if b"transfer-encoding" in dict(self.headers) and self._is_old():
                raise _RefusedError
            super().on_headers_complete()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._stalled = self.loop.call_later(settings.body_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            if self._stalled is not None:
                self._stalled.cancel()
            self._stalled = None
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            for timer in (self._deadline, self._stalled):
                if timer is not None:
                    timer.cancel()
            if self.transport is not None:
                super().connection_lost(exc)

        def _is_old(self) -> bool:
            return str(self.parser.get_http_version()) < "1.1"

        def _is_busy(self) -> bool:
            """Whether a request is being answered."""
            return self.cycle is not None and not self.cycle.response_complete

        def _watch(self) -> None:
            """Runs the timeout whenever no request is being answered."""
            if self._is_busy():
                if self._deadline is not None:
                    self._deadline.cancel()
                self._deadline = None
            elif self._deadline is None:
                self._deadline = self.loop.call_later(settings.header_seconds, self._end)

        def _end(self) -> None:
            if self.transport.get_write_buffer_size():
                # The rest of an answer is still being sent.
                self._deadline = self.loop.call_later(settings.body_seconds, self.transport.abort)
            else:
                self.transport.abort()

    return Bounded


def _ignore_upgrade(data: bytes) -> bytes:
    """Returns bytes of a request's head without its wish for another protocol.

    A server may ignore it (RFC 9110, section 7.8), but the parser would ignore the body instead.
    """
    head, end, body = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"\nx-grade", head) + end + body


def _is_faulty(url: bytes, headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Checks whether headers are too long, or could be used for request smuggling."""
    if len(url) + sum(len(name) + len(value) for name, value in headers) > _MAX_HEAD_BYTES:
        return True
    codings = {b"transfer-encoding": b"chunked", b"content-encoding": b"identity"}
    return sum(name == b"host" for name, _ in headers) > 1 or any(
        value.strip().lower() != codings[name] for name, value in headers if name in codings
    )


def is_loopback(host: str) -> bool:
    """Checks that an address is only reachable from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def open_socket(host: str, port: int) -> socket.socket:
    """Returns a socket bound to an address."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        opened = socket.socket(family, kind, protocol)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
    except OSError as error:
        is_elsewhere = error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror)
        raise MtkitError(
            f"can't listen on {host}:{port}: {error.strerror or error}",
            "--host is an address of this machine: 127.0.0.1, or 0.0.0.0 for all"
            if is_elsewhere
            else "choose another with --port, or --port 0 for any that is free",
        ) from error
    return opened


def serve(context: ServerContext, opened: socket.socket) -> None:
    """Serves requests until SIGTERM or Ctrl-C, then finishes running ones; SIGHUP reloads."""
    _raise_file_limit()
    server = Server(context)
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(server.run_checked(opened))


def _configure(context: ServerContext) -> uvicorn.Config:
    settings = context.settings
    return uvicorn.Config(
        make_app(context),
        http=bounded_protocol(settings),
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        timeout_graceful_shutdown=int(settings.shutdown_seconds) + 1,
        backlog=_BACKLOG,
    )


class Server(uvicorn.Server):
    """uvicorn's server with graceful shutdown at SIGTERM, and reload at SIGHUP."""

    def __init__(self, context: ServerContext) -> None:
        super().__init__(_configure(context))
        self._context = context
        self._loading: asyncio.Task[None] | None = None
        self._reloading: asyncio.Task[None] | None = None
        self._must_reload = False

    async def run_checked(self, opened: socket.socket) -> None:
        """Loads the models, so that their errors are reported as such, and serves."""
        with self.capture_signals():
            self._loading = asyncio.create_task(self._load())
            try:
                await asyncio.wait([self._loading])
                if self._loading.cancelled():
                    return
                self._loading.result()
                # What is loaded now stays: garbage collection of it takes a sixth of a request's
                # time.
                gc.freeze()
                await self._serve_loaded(opened)
            finally:
                self._loading.cancel()
                await self._context.catalogue.close()
                await self._context.processes.close()

    async def _load(self) -> None:
        await asyncio.gather(self._context.catalogue.start(), self._context.processes.load())

    async def _serve_loaded(self, opened: socket.socket) -> None:
        # After the next line is printed, clients may connect at once.
        opened.listen(_BACKLOG)
        address = opened.getsockname()
        host = f"[{address[0]}]" if ":" in address[0] else address[0]
        say(f"serving {_describe(self._context)} on http://{host}:{address[1]}/")
        await self.serve(sockets=[opened])
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.wait([self._reloading])

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handles signals while serving; none is raised again, so that the exit code is 0."""
        loop = asyncio.get_running_loop()
        handled = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        for number in handled:
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)

    def _on_signal(self, number: signal.Signals) -> None:
        loading = self._loading if self._loading and not self._loading.done() else None
        if number is signal.SIGHUP:
            if loading is not None:
                return
            self._must_reload = True
            if self._reloading is None or self._reloading.done():
                self._reloading = asyncio.create_task(self._reload())
            return
        if self.should_exit:
            self.force_exit = True
            return
        self.should_exit = True
        if loading is not None:
            say(f"{number.name}: nothing is served yet")
            loading.cancel()
        else:
            say(f"{number.name}: finishing running requests")

    async def _reload(self) -> None:
        # Changes during a reload cause another one.
        while self._must_reload:
            self._must_reload = False
            try:
                self._context.access.reload()
            except (MtkitError, OSError) as error:
                warn(f"keeping the old keys: {error}")
            await self._context.catalogue.reload()


def _describe(context: ServerContext) -> str:
    return ", ".join(
        f"{service.model.name} ({service.model.languages.describe()})"
        for service in context.catalogue.services.values()
    )


def _raise_file_limit() -> None:
    """Allows the process as many connections as the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
