"""Hours of mixed load on `mtkit serve`: every answer is checked, and memory is watched.

    python benchmarks/serve_soak.py --model FOLDER --source FILE [--other FOLDER] \
      [--minutes 60] [--callers 25] [--idle 5000]

Callers of twelve kinds come at once: one line, a line of many sentences, many lines, HTML, files,
some that leave, floods, attacks (`tests/faults/serving/attacks.py`), broken requests, bodies of
50 MB, slow writers and slow readers, besides thousands of idle connections. Meanwhile the script
alternately kills the model's process, and puts another model in the folder and sends SIGHUP; it
sends SIGTERM at the end, under load. It compares each text's response with those that the text got
alone and in batches, before the load, from the current model; with `--other` the two models'
responses differ. The server must respond to every request that was complete before SIGTERM, exit
with 0, and leave no file. The exit status is 1 on any fault. `--callers 6` leaves most cores to
others.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

import psutil
from soak_callers import KINDS, Caller, repeat

MTKIT = [sys.executable, "-m", "mtkit"]
_SETTINGS = ("serve.log=none", "serve.header_seconds=30", "serve.max_connections=8000")
_FOUND_AT_ONCE = 500
_LONG_LINES, _SENTENCES = 10, 30
_ROUNDS = 3
_MAX_TIPPED = 0.05
"""Share of answers in which another batch may tip a near-tie: a few texts of a hundred do."""


class Sizes(NamedTuple):
    """Memory at a time, in MiB.

    Attributes:
        minute: Since the load began.
        server: Of the server's own process.
        model: Of the largest of its children, which has the model.
        children: Of all of them, those that read files, too.
    """

    minute: float
    server: int
    model: int
    children: int


@contextmanager
def serve(folder: Path, log: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Runs a server; gives its address and its process, once it serves."""
    options = [part for each in _SETTINGS for part in ("--set", each)]
    command = [*MTKIT, "serve", "--model", folder, "--port", "0", *options]
    files = log.with_suffix(".files")
    files.mkdir()
    environment = {**os.environ, "TMPDIR": str(files)}
    with (
        log.open("wb") as stream,
        subprocess.Popen(command, stderr=stream, env=environment) as server,
    ):
        try:
            while " on http" not in log.read_text("utf-8"):
                assert server.poll() is None, log.read_text("utf-8")
                time.sleep(0.1)
            yield log.read_text("utf-8").split(" on ")[1].split()[0], server
        finally:
            if server.poll() is None:
                server.terminate()


async def learn(caller: Caller, name: str) -> None:
    """Asks for each text, alone and in a batch: these are the model's own answers."""
    answers = caller.expected[name] = {}
    chance = random.Random(1)
    for texts, form in (
        (caller.lines, "text"),
        (caller.long_lines, "text"),
        (caller.pages, "html"),
    ):
        rounds = [[text] for text in texts]
        rounds += [chance.sample(texts, len(texts)) for _ in range(_ROUNDS)]
        for asked in rounds:
            status, body = await caller.send("/translate", caller.pack(asked, format=form))
            assert status == 200, body
            for text, found in zip(asked, json.loads(body)["translatedText"], strict=True):
                answers.setdefault(text, set()).add(found)


def read_texts(caller: Caller, source: Path, number: int) -> None:
    """Makes texts of a file's lines."""
    found = source.read_text("utf-8").split("\n")
    # Sentences of a line are joined with one space, and the file's form drops blank lines.
    lines = [*dict.fromkeys(filter(None, (" ".join(line.split()) for line in found)))]
    caller.lines = lines[:number]
    rest = [line if line[-1] in ".!?" else f"{line}." for line in lines]
    caller.long_lines = [
        " ".join(rest[first::_LONG_LINES][:_SENTENCES]) for first in range(_LONG_LINES)
    ]
    escaped = [line.replace("&", "&amp;").replace("<", "&lt;") for line in caller.lines]
    caller.pages = [f'<p class="a">{line}</p>' for line in escaped]


async def idle(caller: Caller, number: int) -> None:
    """Holds thousands of idle connections, reopened when they are closed."""
    opened: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    while caller.stopped_at is None:
        for reader, writer in opened:
            if reader.at_eof():
                writer.transport.abort()
        opened = [each for each in opened if not each[1].is_closing()]
        for _ in range(min(_FOUND_AT_ONCE, number - len(opened))):
            try:
                opened.append(await caller.connect())
            except OSError:
                break
        most = max(caller.counts["idle connections, at most"], len(opened))
        caller.counts["idle connections, at most"] = most
        await asyncio.sleep(0.5)
    for _, writer in opened:
        writer.transport.abort()


async def disturb(
    caller: Caller, process: psutil.Process, folders: list[Path], log: Path, seconds: float
) -> None:
    """Alternately kills the model's process and puts the other model in the folder."""
    served, first, other = folders
    by_name = {str(first): first, str(other): other}
    ends_at = time.monotonic() + seconds
    step = max(20.0, seconds / 20)
    while time.monotonic() + step < ends_at:
        await asyncio.sleep(step)
        if caller.counts["kill -9"] <= caller.counts["SIGHUP"]:
            max(process.children(), key=lambda each: each.memory_info().rss).kill()
            caller.counts["kill -9"] += 1
            continue
        new = next((name for name in by_name if name != caller.model), str(first))
        copy, old = served.with_name("next"), served.with_name("old")
        shutil.copytree(by_name[new], copy)
        caller.changed_at = float("inf")
        served.rename(old)
        copy.rename(served)
        shutil.rmtree(old)
        before = log.read_text("utf-8").count("loaded again")
        process.send_signal(signal.SIGHUP)
        async with asyncio.timeout(120):
            while log.read_text("utf-8").count("loaded again") == before:
                await asyncio.sleep(0.1)
        caller.model, caller.changed_at = new, time.monotonic()
        caller.counts["SIGHUP"] += 1


async def watch(process: psutil.Process, sizes: list[Sizes], seconds: float) -> None:
    """Notes the memory of the server and of its children every few seconds."""
    started_at = time.monotonic()
    while (elapsed := time.monotonic() - started_at) < seconds:
        await asyncio.sleep(5)
        children = []
        for child in process.children():
            try:
                children.append(child.memory_info().rss >> 20)
            except psutil.NoSuchProcess:
                continue
        own = process.memory_info().rss >> 20
        sizes.append(Sizes(elapsed / 60, own, max(children, default=0), sum(children)))


async def soak(
    asked: argparse.Namespace,
    caller: Caller,
    server: subprocess.Popen[bytes],
    folders: list[Path],
    log: Path,
) -> list[Sizes]:
    """Runs all of it; returns how much memory there was."""
    sizes: list[Sizes] = []
    seconds, process = asked.minutes * 60, psutil.Process(server.pid)
    share = asked.callers / sum(number for number, _ in KINDS.values())
    running = [
        asyncio.create_task(repeat(caller, act, 100 * index + copy, pause / min(1.0, share)))
        for index, (act, (number, pause)) in enumerate(KINDS.items())
        for copy in range(max(1, round(number * share)))
    ]
    running.append(asyncio.create_task(idle(caller, asked.idle)))
    around = [
        asyncio.create_task(disturb(caller, process, folders, log, seconds - 30)),
        asyncio.create_task(watch(process, sizes, seconds)),
    ]
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        await asyncio.sleep(min(60.0, max(0.1, ends_at - time.monotonic())))
        told = dict(caller.faults) or "no fault"
        now = sizes[-1] if sizes else Sizes(0.0, 0, 0, 0)
        print(
            f"minute {now.minute:.1f}: {caller.counts['check: all']:,} answers checked, {told}; "
            f"MiB: server {now.server}, model {now.model}, children {now.children}",
            flush=True,
        )
        assert server.poll() is None, log.read_text("utf-8")[-2_000:]
    await asyncio.gather(*around)
    caller.stopped_at = time.monotonic()
    process.send_signal(signal.SIGTERM)
    await asyncio.gather(*running)
    return sizes


def report(caller: Caller, sizes: list[Sizes]) -> None:
    """Prints the results, and records faults."""
    quarter = len(sizes) // 4
    for name in ("server", "model"):
        early = max((getattr(each, name) for each in sizes[quarter : 2 * quarter]), default=0)
        late = max((getattr(each, name) for each in sizes[3 * quarter :]), default=0)
        print(f"{name}: {early} MiB at most in the second quarter, {late} in the last")
        if late > 1.1 * early + 32:
            caller.faults[f"{name}: memory grows"] += 1
    for kind, seconds in caller.seconds.items():
        if len(seconds) > 1:
            at = quantiles(seconds, n=100, method="inclusive")
            print(
                f"{kind}: {len(seconds):,} answers, seconds: "
                f"p50 {at[49]:.3f}, p95 {at[94]:.3f}, p99 {at[98]:.3f}, max {max(seconds):.3f}"
            )
    for outcome, number in sorted(caller.counts.items()):
        print(f"{outcome}: {number:,}")
    print(f"texts of which some words differed with the batch: {len(caller.tipped)}")
    for outcome in ("check: as the other model", "check: differs in words"):
        if caller.counts[outcome] > _MAX_TIPPED * caller.counts["check: all"]:
            caller.faults[outcome] += caller.counts[outcome]
    if len(caller.expected) > 1:
        first, other = caller.expected.values()
        differing = sum(first[text].isdisjoint(other[text]) for text in first)
        print(f"the models differ in {differing} of {len(first)} texts")
    print("faults:", dict(caller.faults) or "none")


def main() -> None:
    """Starts a server, loads it, and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--other", type=Path, help="model that takes turns with it")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--languages", nargs=2, default=["en", "de"])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--lines", type=int, default=100)
    kinds = sum(number for number, _ in KINDS.values())
    parser.add_argument("--callers", type=int, default=kinds, help="with fewer, each sends less")
    parser.add_argument("--idle", type=int, default=5_000)
    asked = parser.parse_args()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        first, other = asked.model.resolve(), (asked.other or asked.model).resolve()
        served = Path(shutil.copytree(first, place / "model"))
        caller = Caller("http://127.0.0.1", tuple(asked.languages))
        read_texts(caller, asked.source, asked.lines)
        for folder in {other, first} - {first}:
            with serve(folder, place / "other.log") as (address, _):
                caller.move(address)
                asyncio.run(learn(caller, str(folder)))
        log = place / "server.log"
        with serve(served, log) as (address, server):
            caller.move(address)
            caller.model = str(first)
            asyncio.run(learn(caller, str(first)))
            print(f"serving on {address}, process {server.pid}", flush=True)
            sizes = asyncio.run(soak(asked, caller, server, [served, first, other], log))
            code = server.wait(120)
        print(*(line for line in log.read_text("utf-8").splitlines()[-60:]), sep="\n")
        if code:
            caller.faults[f"exit code {code} after SIGTERM"] += 1
        if left := [*(place / "server.files").iterdir()]:
            caller.faults[f"{len(left)} temporary files are left"] += 1
    report(caller, sizes)
    sys.stdout.flush()
    os._exit(1 if caller.faults else 0)


if __name__ == "__main__":
    main()
