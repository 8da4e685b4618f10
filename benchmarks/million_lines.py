"""A million short lines through one `mtkit translate`: memory and speed from beginning to end.

    python benchmarks/million_lines.py MODEL SOURCE [--lines N] [--set inference.KEY=VALUE ...]

SOURCE is text, may be .gz; its lines of 2 to 8 words are drawn again and again, in a new order each
time. One process, one thread. Prints for each part lines per second of the process's CPU time,
so that other programs matter little, and its resident memory. Linux only.
"""

import argparse
import gzip
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

NUM_PARTS = 20


def draw_lines(path: Path, count: int) -> Iterator[bytes]:
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    lines = sorted({line for line in text.split(b"\n") if 2 <= len(line.split()) <= 8})
    generator = random.Random(1)
    while count:
        generator.shuffle(lines)
        yield from lines[:count]
        count -= min(count, len(lines))


def feed(stream: IO[bytes], path: Path, count: int) -> None:
    with stream:
        for line in draw_lines(path, count):
            stream.write(line + b"\n")


def read_seconds(process: int) -> float:
    """Returns the CPU time of a process."""
    fields = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_resident(process: int) -> int:
    """Returns the bytes of a process that are in memory."""
    pages = int(Path(f"/proc/{process}/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    options = parser.parse_args()
    command = [sys.executable, "-m", "mtkit", "translate", "--model", str(options.model)]
    for override in ("inference.processes=1", *options.overrides):
        command += ["--set", override]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    feeder = threading.Thread(
        target=feed, args=(process.stdin, options.source, options.lines), daemon=True
    )
    feeder.start()
    print("| lines | lines a second of CPU time | resident, MiB |\n|---|---|---|")
    part = max(options.lines // NUM_PARTS, 1)
    before = read_seconds(process.pid)
    for number, _ in enumerate(process.stdout, start=1):
        if number % part == 0 and process.poll() is None:
            seconds, resident = read_seconds(process.pid), read_resident(process.pid)
            speed = part / (seconds - before)
            print(f"| {number:,} | {speed:,.0f} | {resident / 2**20:,.0f} |", flush=True)
            before = seconds
    feeder.join()
    print(f"exit status {process.wait()}, {number:,} lines out for {options.lines:,} in")


if __name__ == "__main__":
    main()
