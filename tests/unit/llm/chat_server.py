"""A chat API that answers as it is told, for tests."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""


def answer(content: str | None, finish_reason: str = "stop", **more: object) -> Reply:
    """Returns an answer of the API."""
    choice = {"message": {"role": "assistant", "content": content}, "finish_reason": finish_reason}
    return 200, {}, json.dumps({"choices": [choice], **more}).encode()


@contextmanager
def serve_chat(reply: Callable[[dict[str, Any], int], Reply]) -> Iterator[tuple[str, list[Any]]]:
    """Yields an address, and the bodies that it got.

    `reply` returns the answer to a body that came for the n-th time, from 0.
    """
    bodies: list[Any] = []
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                number = bodies.count(body)
                bodies.append(body)
            status, headers, content = reply(body, number)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", bodies
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
