"""What mtkit itself costs when a large language model translates: CPU time, wall time, memory.

    python benchmarks/llm_client.py [--lines 10000] [--concurrent 64] [--per-request 1] [--delay 0]

`mtkit translate --model llm.toml` asks the stub of tests/llm_stub.py, which runs in its own
process and answers each request after at most `--delay` seconds. The same lines are translated a
second time, from the cache. Prints the resident memory every 50,000 lines. Linux only.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from million_lines import read_resident, read_seconds
from peers.machine import describe_machine, print_machine

ROOT = Path(__file__).parent.parent
EVERY = 50_000
WORDS = (
    "the old farmer sells fresh apples and his daughter reads a long letter about our green river"
)


def draw_lines(count: int) -> Iterator[bytes]:
    generator, words = random.Random(1), WORDS.split()
    for number in range(1, count + 1):
        drawn = " ".join(generator.sample(words, generator.randint(4, 12)))
        yield f"Line {number}: {drawn}.\n".encode()


def feed(stream: IO[bytes], count: int) -> None:
    with stream:
        for line in draw_lines(count):
            stream.write(line)


@contextmanager
def serve_stub(delay: float) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Yields the address of a stub and its process."""
    command = [sys.executable, "-m", "tests.llm_stub", "--delay", str(delay)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.terminate()


def write_settings(folder: Path, address: str, options: argparse.Namespace) -> None:
    (folder / "llm.toml").write_text(
        f"url = {json.dumps(address)}\n"
        'model = "stub"\nsource_languages = ["en"]\ntarget_languages = ["de"]\n'
        f"concurrent_requests = {options.concurrent}\nlines_per_request = {options.per_request}\n"
        f"cache.max_mib = {options.cache_mib}\n"
    )


def translate(folder: Path, count: int) -> tuple[float, float]:
    """Translates lines; returns the wall time and the CPU time of the command."""
    started_at = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "mtkit", "translate", "--model", "llm.toml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    threading.Thread(target=feed, args=(process.stdin, count), daemon=True).start()
    number = 0
    for number, line in enumerate(process.stdout, 1):
        # "Line", in the stub's words.
        if line.split()[1] != f"{number}:".encode():
            sys.exit(f"line {number}: {line!r}")
        if number % EVERY == 0:
            seconds, resident = read_seconds(process.pid), read_resident(process.pid)
            print(f"| {number:,} | {seconds:,.0f} | {resident / 2**20:,.0f} |", flush=True)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or number != count:
        sys.exit(f"{number:,} lines of {count:,}, exit code {process.returncode}")
    return time.perf_counter() - started_at, used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--concurrent", type=int, default=64)
    parser.add_argument("--per-request", type=int, default=1)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--cache-mib", type=int, default=1_024)
    options = parser.parse_args()
    print_machine(describe_machine())
    with serve_stub(options.delay) as (address, stub), tempfile.TemporaryDirectory() as folder:
        write_settings(Path(folder), address, options)
        _, start = translate(Path(folder), 1)
        print(f"start and one line: {start:.2f} s of CPU time")
        if options.lines >= EVERY:
            print("| lines | seconds of CPU time | resident, MiB |\n|---|---|---|")
        for name in ("asked", "from the cache") if options.cache_mib else ("asked",):
            before = read_seconds(stub.pid)
            wall, processor = translate(Path(folder), options.lines)
            per_line = (processor - start) / options.lines
            print(
                f"{options.lines:,} lines {name}: {wall:.1f} s; CPU time {processor:.1f} s, "
                f"{per_line * 1e3:.3f} ms a line beyond the start; "
                f"the stub's {read_seconds(stub.pid) - before:.1f} s"
            )


if __name__ == "__main__":
    main()
