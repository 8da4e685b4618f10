"""uvicorn around the application: addresses, connections and signals."""

import asyncio
import gc
import ipaddress
import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from mtkit.console import say, warn
from mtkit.errors import MtkitError
from mtkit.serving.app import make_app
from mtkit.serving.connections import bounded_protocol
from mtkit.serving.office import Office

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
_BACKLOG = 2_048


def is_loopback(host: str) -> bool:
    """Checks whether an address is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def open_socket(host: str, port: int) -> socket.socket:
    """Returns a socket bound to an address.

    Raises:
        MtkitError: It can't be had.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        opened = socket.socket(family, kind, protocol)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
    except OSError as error:
        raise MtkitError(
            f"can't listen on {host}:{port}: {error.strerror or error}",
            "choose another with --port, or --port 0 for any that is free",
        ) from error
    return opened


def serve(office: Office, opened: socket.socket) -> None:
    """Answers requests until SIGTERM or Ctrl-C; what is under way then is finished first.

    SIGHUP loads models and keys again.

    Args:
        office: The server's parts.
        opened: Where it listens.

    Raises:
        MtkitError: A model can't be loaded.
    """
    _raise_file_limit()
    server = Server(office)
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(server.run_checked(opened))


def _configure(office: Office) -> uvicorn.Config:
    settings = office.settings
    return uvicorn.Config(
        make_app(office),
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
    """uvicorn's server, which ends well at SIGTERM, and loads models again at SIGHUP.

    Args:
        office: The server's parts.
    """

    def __init__(self, office: Office) -> None:
        super().__init__(_configure(office))
        self._office = office
        self._loading: asyncio.Task[None] | None = None
        self._reloading: asyncio.Task[None] | None = None
        self._must_reload = False

    async def run_checked(self, opened: socket.socket) -> None:
        """Serves; models are loaded first, so that a fault of theirs is said in its own words.

        Args:
            opened: Where it listens.

        Raises:
            MtkitError: A model can't be loaded.
        """
        with self.capture_signals():
            self._loading = asyncio.create_task(self._load())
            try:
                await asyncio.wait([self._loading])
                if self._loading.cancelled():
                    return
                self._loading.result()
                # What is loaded now stays: looking for garbage in it again and again takes a sixth
                # of a request's time.
                gc.freeze()
                await self._serve_loaded(opened)
            finally:
                self._loading.cancel()
                await self._office.catalogue.close()
                await self._office.processes.close()

    async def _load(self) -> None:
        await asyncio.gather(self._office.catalogue.start(), self._office.processes.load())

    async def _serve_loaded(self, opened: socket.socket) -> None:
        # Whoever reads the next line may ask at once.
        opened.listen(_BACKLOG)
        address = opened.getsockname()
        host = f"[{address[0]}]" if ":" in address[0] else address[0]
        say(f"serving {_describe(self._office)} on http://{host}:{address[1]}/")
        await self.serve(sockets=[opened])
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.wait([self._reloading])

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Takes signals while it serves; none is raised again, so that the command ends with 0."""
        loop = asyncio.get_running_loop()
        handled = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        for number in handled:
            loop.add_signal_handler(number, self._hear, number)
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)

    def _hear(self, number: signal.Signals) -> None:
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
            say(f"{number.name}: finishing what is under way")

    async def _reload(self) -> None:
        # What is changed while models are loaded is loaded after them.
        while self._must_reload:
            self._must_reload = False
            try:
                self._office.access.reload()
            except MtkitError as error:
                warn(f"the keys stay as they were: {error}")
            await self._office.catalogue.reload()


def _describe(office: Office) -> str:
    return ", ".join(
        f"{service.model.name} ({service.model.languages.describe()})"
        for service in office.catalogue.services.values()
    )


def _raise_file_limit() -> None:
    """Lets the process have as many connections as the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
