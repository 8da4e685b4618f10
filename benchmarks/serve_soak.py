"""Hours of mixed load on `mtkit serve`: every answer is checked, and memory is watched.

    python benchmarks/serve_soak.py --model FOLDER --source FILE [--minutes 60]

Callers of twelve kinds come at once: one line, many lines, HTML, files, some that leave, floods,
broken requests, bodies of 50 MB, slow writers, slow readers, and thousands of idle connections.
Meanwhile the model's process is killed, the folder is swapped for a copy and SIGHUP sent, by turns;
SIGTERM comes at the end, under load. Each line's answer is compared with the answer that it got
alone, before the load. Exits with 1 where anything is amiss.
"""

import argparse
import asyncio
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import psutil

MTKIT = [sys.executable, "-m", "mtkit"]
_BIG_BYTES = 50_000_000
_BOUNDARY = "soak-boundary"
_BROKEN = (
    b"{",
    b"[" * 100_000,
    b'{"q": 1e999, "source": "en"}',
    b"\xff\xfe",
    b'{"q": "a", "source": "xx", "target": "de"}',
)


class Caller:
    """Connections to one server, and what became of all requests.

    Args:
        address: The server's.
        languages: Source and target.

    Attributes:
        counts: How often each outcome came.
        faults: What was amiss, in words.
        is_stopping: Whether SIGTERM was sent: connections may be refused.
    """

    def __init__(self, address: str, languages: tuple[str, str]) -> None:
        parts = urlsplit(address)
        self._host, self._port = str(parts.hostname), int(parts.port or 80)
        self._languages = languages
        self.expected: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.is_stopping = False

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
            return await self.read(reader, pause=pause)
        finally:
            writer.close()

    async def read(self, reader: asyncio.StreamReader, *, pause: float = 0.0) -> tuple[int, bytes]:
        """Returns an answer."""
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split()[1])
        pieces = []
        while piece := await reader.read(4_096):
            pieces.append(piece)
            await asyncio.sleep(pause)
        return status, b"".join(pieces)

    def pack(self, texts: str | list[str], **more: str) -> bytes:
        """Returns the body of a /translate request."""
        source, target = self._languages
        return json.dumps({"q": texts, "source": source, "target": target, **more}).encode()

    def check(self, kind: str, text: str, found: str) -> None:
        """Compares a line's answer with the one that it got alone."""
        wanted = self.expected[text]
        if found == wanted:
            self.counts[f"{kind}: lines as alone"] += 1
        elif found in self.expected.values():
            self.faults[f"{kind}: another line's answer"] += 1
        else:
            # Sums of other batches differ in their last bits, and near-ties tip.
            self.counts[f"{kind}: lines that differ"] += 1

    def expect(self, kind: str, status: int, *allowed: int) -> bool:
        """Counts a status; returns whether there is a translation."""
        self.counts[f"{kind}: {status}"] += 1
        if status not in (200, *allowed):
            self.faults[f"{kind}: status {status}"] += 1
        return status == 200


Behaviour = Callable[[Caller, random.Random], Awaitable[None]]


async def ask_line(caller: Caller, chance: random.Random) -> None:
    """One line, as people ask."""
    text = chance.choice([*caller.expected])
    status, body = await caller.send("/translate", caller.pack(text))
    if caller.expect("line", status, 503):
        caller.check("line", text, json.loads(body)["translatedText"])


async def ask_many(caller: Caller, chance: random.Random, *, pause: float = 0.0) -> None:
    """Many lines at once, as a CMS asks."""
    kind = "slow reader" if pause else "many"
    texts = chance.choices([*caller.expected], k=100)
    status, body = await caller.send("/translate", caller.pack(texts), pause=pause)
    if caller.expect(kind, status, 503):
        found = json.loads(body)["translatedText"]
        if len(found) != len(texts):
            caller.faults[f"{kind}: lines lost"] += 1
        for text, translated in zip(texts, found, strict=False):
            caller.check(kind, text, translated)


async def read_slowly(caller: Caller, chance: random.Random) -> None:
    """Many lines, read a page at a time."""
    await ask_many(caller, chance, pause=0.5)


async def ask_markup(caller: Caller, chance: random.Random) -> None:
    """A paragraph of HTML."""
    text = chance.choice([*caller.expected])
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    page = f'<p class="a">{escaped}</p>'
    status, body = await caller.send("/translate", caller.pack(page, format="html"))
    if caller.expect("html", status, 503):
        found = json.loads(body)["translatedText"]
        if not (found.startswith('<p class="a">') and found.endswith("</p>")):
            caller.faults["html: tags lost"] += 1


async def ask_file(caller: Caller, chance: random.Random) -> None:
    """A file of lines, sent and fetched."""
    texts = chance.choices([*caller.expected], k=40)
    parts = [
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in zip(("source", "target"), caller._languages, strict=True)
    ]
    parts.append(
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n'
        "\r\n" + "".join(f"{text}\n\n" for text in texts) + f"\r\n--{_BOUNDARY}--\r\n"
    )
    kind = f"multipart/form-data; boundary={_BOUNDARY}"
    status, body = await caller.send("/translate_file", "".join(parts).encode(), kind)
    if not caller.expect("file", status, 503):
        return
    path = urlsplit(json.loads(body)["translatedFileUrl"]).path
    reader, writer = await caller.connect()
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    status, content = await caller.read(reader)
    writer.close()
    lines = content.decode().split("\n")[: 2 * len(texts) : 2]
    if caller.expect("download", status):
        for text, line in zip(texts, lines, strict=True):
            caller.check("file", text, line)


async def leave(caller: Caller, chance: random.Random) -> None:
    """Asks for much, and leaves before it comes."""
    reader, writer = await caller.connect()
    body = caller.pack(chance.choices([*caller.expected], k=200))
    writer.write(caller.make_head("/translate", len(body)) + body)
    await writer.drain()
    await asyncio.sleep(chance.random() * 0.3)
    writer.close()
    caller.counts["left"] += 1
    del reader


async def flood(caller: Caller, chance: random.Random) -> None:
    """Two hundred at once."""
    await asyncio.gather(*(ask_line(caller, chance) for _ in range(200)))


async def send_broken(caller: Caller, chance: random.Random) -> None:
    """What is no request."""
    status, _ = await caller.send("/translate", chance.choice(_BROKEN))
    caller.counts[f"broken: {status}"] += 1
    if status != 400:
        caller.faults[f"broken: status {status}"] += 1


async def send_much(caller: Caller, chance: random.Random) -> None:
    """A body of 50 MB, announced or in chunks."""
    reader, writer = await caller.connect()
    if chance.random() < 0.5:
        writer.write(caller.make_head("/translate", _BIG_BYTES))
        chunk = b"x" * 65_536
    else:
        head = caller.make_head("/translate", 0).replace(
            b"Content-Length: 0", b"Transfer-Encoding: chunked"
        )
        writer.write(head)
        chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    sent = 0
    try:
        while sent < _BIG_BYTES and not reader.at_eof() and not writer.is_closing():
            writer.write(chunk)
            sent += len(chunk)
            await writer.drain()
    except ConnectionError:
        caller.counts["50 MB: cut off"] += 1
    else:
        caller.counts["50 MB: answered or closed"] += 1
        if sent >= _BIG_BYTES:
            caller.faults["50 MB: all of it was taken"] += 1
    finally:
        writer.transport.abort()


async def write_slowly(caller: Caller, chance: random.Random) -> None:
    """A body that comes a byte at a time; it is cut off, or answered in the end."""
    reader, writer = await caller.connect()
    body = caller.pack(chance.choice([*caller.expected]))
    writer.write(caller.make_head("/translate", len(body)))
    reading = asyncio.create_task(caller.read(reader))
    try:
        for byte in body:
            if reading.done():
                break
            writer.write(bytes([byte]))
            await asyncio.sleep(0.2)
        status, _ = await reading
        caller.expect("slow writer", status, 408, 503)
    finally:
        reading.cancel()
        writer.transport.abort()


_KINDS: dict[Behaviour, tuple[int, float]] = {
    ask_line: (8, 0.0),
    ask_many: (2, 0.5),
    read_slowly: (2, 1.0),
    ask_markup: (2, 0.2),
    ask_file: (2, 0.5),
    leave: (2, 1.0),
    flood: (1, 15.0),
    send_broken: (1, 0.5),
    send_much: (1, 5.0),
    write_slowly: (4, 1.0),
}
"""Callers of each kind, and the seconds between two requests of one."""


async def repeat(caller: Caller, act: Behaviour, seed: int, pause: float, ends_at: float) -> None:
    """Does the same again and again."""
    chance = random.Random(seed)
    while time.monotonic() < ends_at and not caller.is_stopping:
        try:
            async with asyncio.timeout(180):
                await act(caller, chance)
        except TimeoutError:
            caller.faults[f"{act.__name__}: no answer within 180 seconds"] += 1
        except (OSError, asyncio.IncompleteReadError) as error:
            if not caller.is_stopping:
                caller.faults[f"{act.__name__}: {type(error).__name__}"] += 1
        await asyncio.sleep(pause * (0.5 + chance.random()))


async def idle(caller: Caller, number: int, ends_at: float) -> None:
    """Thousands of connections that say nothing, opened again when they are closed."""
    opened: list[asyncio.StreamWriter] = []
    while time.monotonic() < ends_at and not caller.is_stopping:
        opened = [each for each in opened if not each.is_closing()]
        for _ in range(min(500, number - len(opened))):
            try:
                opened.append((await caller.connect())[1])
            except OSError:
                break
        caller.counts["idle connections, at most"] = max(
            caller.counts["idle connections, at most"], len(opened)
        )
        await asyncio.sleep(0.5)
    for each in opened:
        each.transport.abort()


async def disturb(caller: Caller, process: psutil.Process, folder: Path, ends_at: float) -> None:
    """Kills the model's process, and swaps the folder, by turns."""
    step = max(20.0, (ends_at - time.monotonic()) / 10)
    while time.monotonic() + step < ends_at:
        await asyncio.sleep(step)
        if process.children() and caller.counts["kill -9"] <= caller.counts["SIGHUP"]:
            process.children()[0].kill()
            caller.counts["kill -9"] += 1
        else:
            copy, old = folder.with_name("next"), folder.with_name("old")
            shutil.copytree(folder, copy)
            folder.rename(old)
            copy.rename(folder)
            shutil.rmtree(old)
            process.send_signal(signal.SIGHUP)
            caller.counts["SIGHUP"] += 1


async def watch(process: psutil.Process, ends_at: float, sizes: list[tuple[int, int]]) -> None:
    """Notes the memory of the server and of its model's process."""
    while time.monotonic() < ends_at:
        await asyncio.sleep(5)
        try:
            children = [each.memory_info().rss for each in process.children()]
            sizes.append((process.memory_info().rss >> 20, sum(children) >> 20))
        except psutil.NoSuchProcess:
            continue


async def soak(asked: argparse.Namespace, address: str, process: psutil.Process) -> Caller:
    """Runs all of it, and prints what became of it."""
    caller = Caller(address, tuple(asked.languages))
    for line in asked.source.read_text("utf-8").split("\n")[: asked.lines]:
        # Sentences of a line are joined with one space, and the file's form drops blank lines.
        if text := " ".join(line.split()):
            status, body = await caller.send("/translate", caller.pack(text))
            assert status == 200, body
            caller.expected[text] = json.loads(body)["translatedText"]
    ends_at = time.monotonic() + asked.minutes * 60
    sizes: list[tuple[int, int]] = []
    folder = Path(asked.folder)
    running = [
        asyncio.create_task(repeat(caller, act, 100 * index + copy, pause, ends_at + 60))
        for index, (act, (number, pause)) in enumerate(_KINDS.items())
        for copy in range(number)
    ]
    running += [
        asyncio.create_task(idle(caller, asked.idle, ends_at)),
        asyncio.create_task(disturb(caller, process, folder, ends_at - 30)),
        asyncio.create_task(watch(process, ends_at, sizes)),
    ]
    while time.monotonic() < ends_at:
        await asyncio.sleep(min(30.0, max(0.1, ends_at - time.monotonic())))
        print(dict(caller.faults) or "no fault", sizes[-1:], flush=True)
    process.send_signal(signal.SIGTERM)
    caller.is_stopping = True
    await asyncio.gather(*running)
    _compare_memory(caller, sizes)
    return caller


def _compare_memory(caller: Caller, sizes: list[tuple[int, int]]) -> None:
    """Compares the memory of the second and of the last quarter."""
    quarter = len(sizes) // 4
    for index, name in enumerate(("server", "model")):
        early = max((each[index] for each in sizes[quarter : 2 * quarter]), default=0)
        late = max((each[index] for each in sizes[3 * quarter :]), default=0)
        print(f"{name}: {early} MiB at most in the second quarter, {late} in the last")
        if late > 1.1 * early + 32:
            caller.faults[f"{name}: memory grows"] += 1


def main() -> None:
    """Starts a server, loads it, and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--languages", nargs=2, default=["en", "de"])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--lines", type=int, default=100)
    parser.add_argument("--idle", type=int, default=5_000)
    asked = parser.parse_args()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    with tempfile.TemporaryDirectory() as name:
        asked.folder = shutil.copytree(asked.model, Path(name) / "model")
        settings = ["serve.log=none", "serve.header_seconds=30", "serve.max_connections=8000"]
        options = [part for each in settings for part in ("--set", each)]
        command = [*MTKIT, "serve", "--model", asked.folder, "--port", "0", *options]
        log = Path(name) / "log"
        with log.open("wb") as stream, subprocess.Popen(command, stderr=stream) as server:
            while " on http" not in log.read_text("utf-8"):
                assert server.poll() is None, log.read_text("utf-8")
                time.sleep(0.1)
            address = log.read_text("utf-8").split(" on ")[1].split()[0]
            caller = asyncio.run(soak(asked, address, psutil.Process(server.pid)))
            code = server.wait(120)
        if code:
            caller.faults[f"exit code {code} after SIGTERM"] += 1
        print(*(line for line in log.read_text("utf-8").splitlines()[-60:]), sep="\n")
    for outcome, number in sorted(caller.counts.items()):
        print(f"{outcome}: {number:,}")
    print("faults:", dict(caller.faults) or "none")
    sys.stdout.flush()
    os._exit(1 if caller.faults else 0)


if __name__ == "__main__":
    main()
