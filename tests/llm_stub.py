"""A stub of a large language model's server: an OpenAI-compatible chat API that plants faults.

    python -m tests.llm_stub --port 0 --fault missing-line:0.1 --fault busy:0.05 --delay 0.2

prints its address, and runs until it is interrupted. `GET /stats` tells what came. Whether a
request has a fault is decided by its messages and by how often they have come, so that each run
has the same ones. The names of faults are in llm_faults.py.
"""

import argparse
import asyncio
import contextlib
import json
import re
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from .llm_faults import (
    BODY_FAULTS,
    CONTENT_FAULTS,
    FAULTS,
    HUGE_BYTES,
    STATUS_FAULTS,
    STREAM_FAULTS,
    join_lines,
    spoil_body,
    spoil_status,
)

_GERMAN = """\
der Hund läuft durch den Garten und sieht eine Katze hinter dem Haus weil sie dort schläft während
ein Mädchen mit ihrer Großmutter über die Straße geht wo viele Leute auf einen Bus warten aber heute
kommt keiner mehr denn es ist schon spät deshalb müssen wir zu Fuß nach Hause gehen obwohl der Weg
sehr lang ist und unsere Füße ziemlich müde sind nachdem wir gestern zwischen Köln und München
gewandert waren ohne irgendwo eine gute Suppe zu essen"""
_WORDS = _GERMAN.split()
# Placeholders, tags, addresses, numbers, names of files, options; then words.
_PIECE = re.compile(
    r"\{[^{}]*\}|<[^<>]*>|%\([^()]*\)\w|%\w|(?<!\S)--?\w+|[^\s\"“”]*[@/\\_$\d][^\s\"“”]*"
    r"|(?P<word>[^\W\d_]+(?:['’][^\W\d_]+)*)"
)
_TERM = re.compile(r'"([^"\n]+)" is "([^"\n]+)"')
_REMARK = re.compile(r"\A\(An earlier answer was rejected: .*?\)\n", re.DOTALL)
_NUMBER = re.compile(r"\d+\. ")
_PATH = "/v1/chat/completions"
_ELSEWHERE = "/elsewhere"
_MAX_HEADER_BYTES = 1 << 16


def translate(line: str, terms: Sequence[tuple[str, str]] = ()) -> str:
    """Returns a line with a German word for each word, and all else as it is.

    It is the same for a word wherever it stands, so that lines may be split and joined.
    """
    for index, (source, _) in enumerate(terms):
        line = re.sub(rf"(?<!\w){re.escape(source)}(?!\w)", f"{{\0{index}}}", line, flags=re.I)
    line = _PIECE.sub(lambda found: _translate_word(found) if found["word"] else found[0], line)
    return re.sub("\\{\0(\\d+)\\}", lambda found: terms[int(found[1])][1], line)


def _translate_word(found: re.Match[str]) -> str:
    word = _WORDS[zlib.crc32(found[0].casefold().encode()) % len(_WORDS)]
    return word[0].upper() + word[1:] if found[0][0].isupper() else word


@dataclass(frozen=True)
class Fault:
    """A fault to plant.

    Attributes:
        name: One of `FAULTS`.
        rate: The share of requests that have it.
        times: How often the same request has it, from its first time on; None: always.
    """

    name: str
    rate: float = 1.0
    times: int | None = 1


@dataclass
class Asked:
    """A request that came.

    Attributes:
        body: Its JSON; None for a stub that keeps no bodies.
        raw: Its bytes; empty for a stub that keeps no bodies.
        authorization: Its header of that name.
        lines: The lines to translate.
        digest: That of its messages, without a remark on an earlier answer.
        fault: What was planted; empty if nothing.
        is_answered: Whether the answer has gone out, and has no fault.
    """

    body: dict[str, Any] | None
    raw: bytes
    authorization: str
    lines: list[str]
    digest: str
    fault: str = ""
    is_answered: bool = False

    @property
    def draw(self) -> int:
        """A number of 32 bits that chooses the fault."""
        return zlib.crc32(self.digest.encode())


@dataclass
class Stub:
    """What a server plants, and what it got.

    Attributes:
        faults: Their rates add up to 1 at most.
        key: The key that it asks for; empty: any, or none.
        delay: Seconds that an answer takes; half of it to all of it, by the request.
        keeps_bodies: Whether `asked` has what came.
        asked: The requests, in order.
        strays: Paths and `Authorization` of requests for something else.
        most_open: Maximum number of requests at the same time.
        address: That of the API, up to `/v1`.
    """

    faults: tuple[Fault, ...] = ()
    key: str = ""
    delay: float = 0.0
    keeps_bodies: bool = True
    asked: list[Asked] = field(default_factory=list)
    strays: list[tuple[str, str]] = field(default_factory=list)
    most_open: int = 0
    address: str = ""
    num_asked: int = 0
    num_open: int = 0
    times: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)

    def count_repeated(self) -> int:
        """Returns how many good answers were given again."""
        return self.answered.total() - len(self.answered)

    def describe(self) -> dict[str, Any]:
        """Returns counts, for `GET /stats`."""
        return {
            "requests": self.num_asked,
            "answered": self.answered.total(),
            "repeated": self.count_repeated(),
            "most_open": self.most_open,
            "strays": len(self.strays),
        }

    def _choose(self, asked: Asked) -> str:
        """Returns the fault of a request that has come; empty if it has none."""
        time = self.times[asked.digest]
        self.times[asked.digest] += 1
        share = asked.draw / 2**32
        for fault in self.faults:
            share -= fault.rate
            if share < 0:
                return fault.name if fault.times is None or time < fault.times else ""
        return ""


class _Server:
    """Answers the requests of connections."""

    def __init__(self, stub: Stub) -> None:
        self.stub = stub

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers a connection's requests until it ends."""
        ends = ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError
        with contextlib.suppress(*ends):
            while await self._answer(reader, writer):
                pass
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answers a request; returns whether the connection stays."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        authorization = headers.get("authorization", "")
        if path == "/stats":
            return await _send(writer, "200 OK", json.dumps(self.stub.describe()).encode())
        if method != "POST" or path != _PATH:
            self.stub.strays.append((path, authorization))
            return await _send(writer, "404 Not Found", _error("no such path"))
        if self.stub.key and authorization != f"Bearer {self.stub.key}":
            return await _send(writer, "401 Unauthorized", _error("invalid key"))
        try:
            asked, is_numbered, terms = self._read(raw, authorization)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            return await _send(writer, "400 Bad Request", _error(f"not understood: {error!r}"))
        self.stub.num_asked += 1
        self.stub.num_open += 1
        self.stub.most_open = max(self.stub.most_open, self.stub.num_open)
        if self.stub.keeps_bodies:
            self.stub.asked.append(asked)
        asked.fault = self.stub._choose(asked)
        try:
            return await self._answer_chat(writer, asked, terms, is_numbered=is_numbered)
        finally:
            self.stub.num_open -= 1

    def _read(self, raw: bytes, authorization: str) -> tuple[Asked, bool, list[tuple[str, str]]]:
        """Returns a request, whether its lines are numbered, and the terms that it asks for."""
        body = json.loads(raw)
        if not isinstance(body["model"], str) or body.get("stream"):
            raise ValueError("model, stream")
        messages = body["messages"]
        if messages[-1]["role"] != "user":
            raise ValueError("the last message isn't the user's")
        head, _, tail = messages[-1]["content"].rpartition("\n\n")
        is_numbered = "numbered line" in head
        lines = tail.split("\n")
        if is_numbered:
            lines = [_NUMBER.sub("", line, count=1) for line in lines]
            if tail != join_lines(lines, is_numbered=True):
                raise ValueError("the lines aren't numbered")
        elif len(lines) > 1:
            lines = lines[-1:]
        # A request is the same when it comes again with a remark on its answer.
        given = [_REMARK.sub("", message["content"]) for message in messages]
        digest = blake2b(json.dumps(given).encode(), digest_size=16).hexdigest()
        is_kept = self.stub.keeps_bodies
        asked = Asked(body if is_kept else None, raw if is_kept else b"", authorization, lines,
                      digest)  # fmt: skip
        return asked, is_numbered, _TERM.findall(head)

    async def _answer_chat(
        self,
        writer: asyncio.StreamWriter,
        asked: Asked,
        terms: list[tuple[str, str]],
        *,
        is_numbered: bool,
    ) -> bool:
        """Answers a request to translate; returns whether the connection stays."""
        draw = asked.draw
        if self.stub.delay:
            await asyncio.sleep(self.stub.delay * (0.5 + draw / 2**33))
        if asked.fault in STATUS_FAULTS:
            elsewhere = self.stub.address.replace("127.0.0.1", "localhost").removesuffix("/v1")
            status, headers, body = spoil_status(
                asked.fault, asked.authorization, elsewhere + _ELSEWHERE
            )
            return await _send(writer, status, body, headers)

        def translate_line(line: str) -> str:
            return translate(line, terms)

        if asked.fault in CONTENT_FAULTS:
            content = CONTENT_FAULTS[asked.fault](asked.lines, translate_line, is_numbered)
        else:
            content = join_lines(list(map(translate_line, asked.lines)), is_numbered=is_numbered)
        body = _complete(content, len(asked.lines), is_cut=asked.fault == "truncated")
        if asked.fault in BODY_FAULTS:
            body = spoil_body(asked.fault, body, draw)
        if asked.fault in STREAM_FAULTS:
            return await _break(writer, asked.fault, body)
        await _send(writer, "200 OK", body)
        if not asked.fault:
            asked.is_answered = True
            self.stub.answered[asked.digest] += 1
        return True


def _complete(content: str, num_lines: int, *, is_cut: bool) -> bytes:
    """Returns the body of an answer, with fields that a client has no use for."""
    num_tokens = len(content) // 4 + 1
    message = {"role": "assistant", "content": content, "refusal": None}
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": "length" if is_cut else "stop",
    }
    usage = {
        "prompt_tokens": 30 * num_lines,
        "completion_tokens": num_tokens,
        "total_tokens": 30 * num_lines + num_tokens,
    }
    body = {
        "id": "chatcmpl-0",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "stub",
        "choices": [choice],
        "usage": usage,
    }
    return json.dumps(body).encode()


def _error(message: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode()


async def _send(
    writer: asyncio.StreamWriter, status: str, body: bytes, headers: Sequence[str] = ()
) -> bool:
    """Sends an answer; the connection stays."""
    if not any(header.startswith("Content-Type") for header in headers):
        headers = ["Content-Type: application/json", *headers]
    head = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}"]
    writer.write("\r\n".join([*head, "", ""]).encode() + body)
    await writer.drain()
    return True


async def _break(writer: asyncio.StreamWriter, fault: str, body: bytes) -> bool:
    """Sends an answer in one of the ways of `STREAM_FAULTS`; returns that nothing follows."""
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
    match fault:
        case "reset":
            pass
        case "broken":
            writer.write(head.format(len(body)).encode() + body[: len(body) // 2])
            await writer.drain()
        case "drip":
            writer.write(head.format(len(body)).encode())
            for byte in body:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(1)
        case _:
            filler = b"a" * 100_000
            writer.write(head.format(HUGE_BYTES).encode() + b'{"choices": "')
            for _ in range(HUGE_BYTES // len(filler)):
                writer.write(filler)
                await writer.drain()
    return False


async def _open(stub: Stub, port: int) -> asyncio.Server:
    server = await asyncio.start_server(
        _Server(stub).serve, "127.0.0.1", port, limit=_MAX_HEADER_BYTES, backlog=1_024
    )
    stub.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    return server


@contextmanager
def serve_llm(
    *faults: Fault, key: str = "", delay: float = 0.0, port: int = 0, keeps_bodies: bool = True
) -> Iterator[Stub]:
    """Yields a server that runs in a thread."""
    stub = Stub(faults, key, delay, keeps_bodies)
    loop = asyncio.new_event_loop()
    started = threading.Event()

    def run() -> None:
        asyncio.set_event_loop(loop)
        server = loop.run_until_complete(_open(stub, port))
        started.set()
        loop.run_forever()
        server.close()
        # A connection that was just accepted gets its task first.
        loop.run_until_complete(asyncio.sleep(0.05))
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.gather(*asyncio.all_tasks(loop), return_exceptions=True))
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    if not started.wait(10):
        raise OSError("the stub doesn't start")
    try:
        yield stub
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def _read_fault(text: str) -> Fault:
    """Returns what `NAME:RATE` or `NAME:RATE:TIMES` says; `always` for times."""
    name, rate, times = [*text.split(":"), "1", "1"][:3]
    if name not in FAULTS:
        raise argparse.ArgumentTypeError(f"{name}: expected one of {', '.join(FAULTS)}")
    return Fault(name, float(rate), None if times == "always" else int(times))


def main() -> None:
    """Serves until it is interrupted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--fault", type=_read_fault, action="append", default=[],
                        metavar="NAME[:RATE[:TIMES]]", help=", ".join(FAULTS))  # fmt: skip
    parser.add_argument("--key", default="", help="the key that it asks for")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds of an answer")
    options = parser.parse_args()
    stub = Stub(tuple(options.fault), options.key, options.delay, keeps_bodies=False)

    async def serve() -> None:
        server = await _open(stub, options.port)
        print(stub.address, flush=True)
        await server.serve_forever()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())
    print(json.dumps(stub.describe()), file=sys.stderr)


if __name__ == "__main__":
    main()
