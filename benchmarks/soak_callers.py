"""Callers of `serve_soak.py`: how each kind behaves, and what it checks of its answers."""

import asyncio
import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from difflib import SequenceMatcher
from pathlib import Path
from urllib.parse import urlsplit

sys.path.append(str(Path(__file__).parents[1] / "tests" / "faults" / "serving"))

from attacks import list_attacks

BIG_BYTES = 50_000_000
_BUSY = (503, 504)
"""Statuses of an overloaded server: the queue is full, or a request timed out."""
_BOUNDARY = "soak-boundary"
_BROKEN = (
    b"{",
    b"[" * 100_000,
    b'{"q": 1e999, "source": "en"}',
    b"\xff\xfe",
    b'{"q": "a", "source": "xx", "target": "de"}',
)


class CutOffError(Exception):
    """A connection ended whose request had been sent whole, long before SIGTERM."""


class Caller:
    """Connections to one server, and the outcomes of all requests.

    Args:
        address: The server's.
        languages: Source and target.

    Attributes:
        lines: Short texts that callers may send.
        long_lines: Long ones.
        pages: The short ones as HTML.
        expected: By model, the answers to each text, alone and in a batch: a near-tie has
            several.
        model: Name of the model that answers what is asked now.
        changed_at: When it was changed last; infinity while it is being changed.
        counts: How often each outcome came.
        faults: How often each fault came.
        seconds: Of each kind, how long its answers took.
        tipped: Texts whose answers differed in some words.
        stopped_at: When SIGTERM was sent; None before it.
    """

    def __init__(self, address: str, languages: tuple[str, str]) -> None:
        self.move(address)
        self.languages = languages
        self.lines: list[str] = []
        self.long_lines: list[str] = []
        self.pages: list[str] = []
        self.expected: dict[str, dict[str, set[str]]] = {}
        self.model = ""
        self.changed_at = 0.0
        self.counts: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.tipped: set[str] = set()
        self.stopped_at: float | None = None

    def move(self, address: str) -> None:
        """Turns to another server."""
        parts = urlsplit(address)
        self._host, self._port = str(parts.hostname), int(parts.port or 80)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Returns a new connection."""
        return await asyncio.open_connection(self._host, self._port)

    def make_head(self, path: str, length: int, kind: str = "application/json") -> bytes:
        """Returns a request's head."""
        return (
            f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {length}\r\nConnection: close\r\n\r\n"
        ).encode()

    async def send(
        self, path: str, body: bytes, kind: str = "application/json", *, pause: float = 0.0
    ) -> tuple[int, bytes]:
        """Returns an answer's status and body; the reader pauses before each part of it."""
        reader, writer = await self.connect()
        try:
            writer.write(self.make_head(path, len(body), kind) + body)
            await writer.drain()
            return await self.read(reader, pause=pause, sent_at=time.monotonic())
        finally:
            writer.close()

    async def read(
        self, reader: asyncio.StreamReader, *, pause: float = 0.0, sent_at: float | None = None
    ) -> tuple[int, bytes]:
        """Returns an answer.

        Args:
            reader: The connection.
            pause: Seconds before each part of it.
            sent_at: When the request had been sent whole.
        """
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = int(head.partition("content-length:")[2].split(maxsplit=1)[0])
            pieces = []
            while missing := length - sum(map(len, pieces)):
                pieces.append(await reader.readexactly(min(4_096, missing)))
                await asyncio.sleep(pause)
        except (OSError, asyncio.IncompleteReadError) as error:
            stopped_at = self.stopped_at
            # What was still in the system's buffers at SIGTERM was never under way.
            if sent_at is not None and stopped_at is not None and sent_at < stopped_at - 1.0:
                raise CutOffError from error
            raise
        return int(head.split()[1]), b"".join(pieces)

    def pack(self, texts: str | list[str], **more: str) -> bytes:
        """Returns the body of a /translate request."""
        source, target = self.languages
        return json.dumps({"q": texts, "source": source, "target": target, **more}).encode()

    def check(self, kind: str, text: str, found: str, asked_at: float) -> None:
        """Compares a text's answer with the one that it got alone of the model at work.

        Args:
            kind: Whose it is.
            text: What was asked.
            found: The answer.
            asked_at: When it was asked: before a change is over, both models may answer.
        """
        wanted, others = set(self.expected[self.model][text]), set[str]()
        for answers in self.expected.values():
            others |= answers[text]
        if asked_at <= self.changed_at:
            wanted |= others
        if found in wanted:
            self.counts[f"{kind}: as alone"] += 1
        elif found in others:
            self.counts["check: as the other model"] += 1
        elif self._is_known(found):
            self.faults[f"{kind}: another text's answer"] += 1
        elif max(_compare_words(found, each) for each in wanted) < 0.5:
            self.faults[f"{kind}: unlike the text's own answer"] += 1
            print(f"{kind}: {text!r}: {found!r}, alone {wanted!r}", flush=True)
        else:
            # Sums of other batches differ in their last bits, and near-ties tip.
            self.counts["check: differs in words"] += 1
            self.tipped.add(text)
        self.counts["check: all"] += 1

    def _is_known(self, found: str) -> bool:
        return any(found in each for answers in self.expected.values() for each in answers.values())

    def expect(self, kind: str, status: int, asked_at: float, *allowed: int) -> bool:
        """Counts a status and its time; returns whether there is a translation."""
        self.counts[f"{kind}: {status}"] += 1
        if status == 200:
            self.seconds[kind].append(time.monotonic() - asked_at)
        elif status not in allowed:
            self.faults[f"{kind}: status {status}"] += 1
        return status == 200


def _compare_words(text: str, other: str) -> float:
    """Returns how much of two texts' words is the same, from 0 to 1."""
    return SequenceMatcher(None, text.split(), other.split(), autojunk=False).ratio()


Behaviour = Callable[[Caller, random.Random], Awaitable[None]]


async def _ask(caller: Caller, kind: str, text: str, **more: str) -> None:
    asked_at = time.monotonic()
    status, body = await caller.send("/translate", caller.pack(text, **more))
    if caller.expect(kind, status, asked_at, *_BUSY):
        caller.check(kind, text, json.loads(body)["translatedText"], asked_at)


async def ask_line(caller: Caller, chance: random.Random) -> None:
    """One short line, as people ask."""
    await _ask(caller, "line", chance.choice(caller.lines))


async def ask_long_line(caller: Caller, chance: random.Random) -> None:
    """A line of many sentences."""
    await _ask(caller, "long line", chance.choice(caller.long_lines))


async def ask_markup(caller: Caller, chance: random.Random) -> None:
    """A paragraph of HTML."""
    await _ask(caller, "html", chance.choice(caller.pages), format="html")


async def ask_many(caller: Caller, chance: random.Random, *, pause: float = 0.0) -> None:
    """Many lines at once, as a CMS asks."""
    kind, asked_at = ("slow reader" if pause else "many"), time.monotonic()
    texts = chance.choices(caller.lines, k=100)
    status, body = await caller.send("/translate", caller.pack(texts), pause=pause)
    if caller.expect(kind, status, asked_at, *_BUSY):
        found = json.loads(body)["translatedText"]
        if len(found) != len(texts):
            caller.faults[f"{kind}: lines lost"] += 1
        for text, translated in zip(texts, found, strict=False):
            caller.check(kind, text, translated, asked_at)


async def read_slowly(caller: Caller, chance: random.Random) -> None:
    """Many lines, read a page at a time."""
    await ask_many(caller, chance, pause=0.5)


async def ask_file(caller: Caller, chance: random.Random) -> None:
    """A file of lines, sent and fetched."""
    asked_at, texts = time.monotonic(), chance.choices(caller.lines, k=40)
    parts = [
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in zip(("source", "target"), caller.languages, strict=True)
    ]
    parts.append(
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n'
        "\r\n" + "".join(f"{text}\n\n" for text in texts) + f"\r\n--{_BOUNDARY}--\r\n"
    )
    kind = f"multipart/form-data; boundary={_BOUNDARY}"
    status, body = await caller.send("/translate_file", "".join(parts).encode(), kind)
    if not caller.expect("file", status, asked_at, *_BUSY):
        return
    path = urlsplit(json.loads(body)["translatedFileUrl"]).path
    reader, writer = await caller.connect()
    try:
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        writer.write(head.encode())
        fetched_at = time.monotonic()
        status, content = await caller.read(reader)
    finally:
        writer.close()
    lines = content.decode().split("\n")[: 2 * len(texts) : 2]
    if caller.expect("download", status, fetched_at):
        for text, line in zip(texts, lines, strict=True):
            caller.check("file", text, line, asked_at)


async def leave(caller: Caller, chance: random.Random) -> None:
    """Asks for much, and leaves before it comes."""
    _, writer = await caller.connect()
    body = caller.pack(chance.choices(caller.lines, k=200))
    writer.write(caller.make_head("/translate", len(body)) + body)
    await writer.drain()
    await asyncio.sleep(chance.random() * 0.3)
    writer.close()
    caller.counts["left"] += 1


async def flood(caller: Caller, chance: random.Random) -> None:
    """Two hundred at once."""
    await asyncio.gather(*(ask_line(caller, chance) for _ in range(200)))


async def send_broken(caller: Caller, chance: random.Random) -> None:
    """An invalid request."""
    status, _ = await caller.send("/translate", chance.choice(_BROKEN))
    caller.counts[f"broken: {status}"] += 1
    if status != 400:
        caller.faults[f"broken: status {status}"] += 1


async def send_much(caller: Caller, chance: random.Random) -> None:
    """A body of 50 MB, announced or in chunks."""
    reader, writer = await caller.connect()
    if chance.random() < 0.5:
        writer.write(caller.make_head("/translate", BIG_BYTES))
        chunk = b"x" * 65_536
    else:
        head = caller.make_head("/translate", 0).replace(
            b"Content-Length: 0", b"Transfer-Encoding: chunked"
        )
        writer.write(head)
        chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    sent = 0
    try:
        while sent < BIG_BYTES and not reader.at_eof() and not writer.is_closing():
            writer.write(chunk)
            sent += len(chunk)
            await writer.drain()
    except ConnectionError:
        caller.counts["50 MB: cut off"] += 1
    else:
        caller.counts["50 MB: answered or closed"] += 1
        if sent >= BIG_BYTES:
            caller.faults["50 MB: all of it was taken"] += 1
    finally:
        writer.transport.abort()


async def write_slowly(caller: Caller, chance: random.Random) -> None:
    """A body that comes a byte at a time; it is cut off, or answered in the end."""
    reader, writer = await caller.connect()
    body = caller.pack(chance.choice(caller.lines))
    writer.write(caller.make_head("/translate", len(body)))
    reading = asyncio.create_task(caller.read(reader))
    try:
        for byte in body:
            if reading.done():
                break
            writer.write(bytes([byte]))
            await asyncio.sleep(0.2)
        status, _ = await reading
        caller.counts[f"slow writer: {status}"] += 1
        if status not in (200, 408, *_BUSY):
            caller.faults[f"slow writer: status {status}"] += 1
    finally:
        reading.cancel()
        writer.transport.abort()


async def attack(caller: Caller, chance: random.Random) -> None:
    """One of the attacks of the tests, all its requests at once."""
    chosen = chance.choice(list_attacks())
    await asyncio.gather(
        *(_send_attack(caller, request, stalls=chosen.stalls) for request in chosen.requests(""))
    )
    caller.counts[f"attack: {chosen.name}"] += 1


async def _send_attack(caller: Caller, request: bytes, *, stalls: bool) -> None:
    try:
        reader, writer = await caller.connect()
        try:
            writer.write(request)
            await writer.drain()
            if stalls:
                await asyncio.sleep(5.0)
            else:
                await reader.read()
        finally:
            writer.transport.abort()
    except ConnectionError:
        # Refused before all of it was sent.
        caller.counts["attack: cut off"] += 1


KINDS: dict[Behaviour, tuple[int, float]] = {
    ask_line: (8, 0.0),
    ask_long_line: (1, 0.5),
    ask_many: (2, 0.5),
    read_slowly: (2, 1.0),
    ask_markup: (2, 0.2),
    ask_file: (2, 0.5),
    leave: (2, 1.0),
    flood: (1, 15.0),
    send_broken: (1, 0.5),
    send_much: (1, 5.0),
    write_slowly: (4, 1.0),
    attack: (1, 3.0),
}
"""Callers of each kind, and the seconds between two requests of one."""


async def repeat(caller: Caller, act: Behaviour, seed: int, pause: float) -> None:
    """Does the same again and again, until SIGTERM."""
    chance = random.Random(seed)
    while caller.stopped_at is None:
        try:
            async with asyncio.timeout(180):
                await act(caller, chance)
        except TimeoutError:
            caller.faults[f"{act.__name__}: no answer within 180 seconds"] += 1
        except CutOffError:
            caller.faults[f"{act.__name__}: cut off at SIGTERM"] += 1
        except (OSError, asyncio.IncompleteReadError) as error:
            if caller.stopped_at is None:
                caller.faults[f"{act.__name__}: {type(error).__name__}"] += 1
        await asyncio.sleep(pause * (0.5 + chance.random()))
