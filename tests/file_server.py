"""A server of files on this machine, with faults that a test plants."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass
class Faults:
    """What goes wrong.

    Attributes:
        max_bytes: Bytes of a response's body before the connection ends.
        first_bytes: The same of the first responses with a body, one after the other.
        statuses: Sent instead of the first responses.
        has_ranges: Whether requests for a range get one.
        stalls: Responses that end in silence after `max_bytes` instead of at once.
        requests: Method and range of each request so far.
    """

    max_bytes: int | None = None
    first_bytes: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    has_ranges: bool = True
    stalls: int = 0
    requests: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def serve_files(folder: Path) -> Iterator[tuple[str, Faults]]:
    """Yields the address of a server of a folder's files, and its faults."""
    faults, is_over = Faults(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(has_body=False)

        def do_GET(self) -> None:
            self._answer(has_body=True)

        def log_message(self, *_: Any) -> None:
            pass

        def _answer(self, *, has_body: bool) -> None:
            wanted = self.headers.get("Range", "")
            faults.requests.append((self.command, wanted))
            path = folder / self.path.lstrip("/")
            if faults.statuses or not path.is_file():
                status = faults.statuses.pop(0) if faults.statuses else 404
                self.send_response(status)
                self.send_header("Retry-After", "0")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            content, first = path.read_bytes(), 0
            if wanted and faults.has_ranges:
                first = int(wanted.removeprefix("bytes=").removesuffix("-"))
                self.send_response(206)
                last = len(content) - 1
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(len(content) - first))
            self.send_header("ETag", f'"{hash(content)}"')
            self.end_headers()
            if has_body:
                body = content[first:]
                limit = faults.first_bytes.pop(0) if faults.first_bytes else faults.max_bytes
                self.wfile.write(body[:limit])
                self.wfile.flush()
                if faults.max_bytes is not None and faults.stalls:
                    faults.stalls -= 1
                    is_over.wait(10)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", faults
    finally:
        is_over.set()
        server.shutdown()
        server.server_close()
