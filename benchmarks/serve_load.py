"""Throughput and latency of `mtkit serve` under load, compared with others on the same lines.

    python benchmarks/serve_load.py --model FOLDER --source FILE [--callers 1 8 64 256]
    python benchmarks/serve_load.py --model FOLDER --source FILE --beside libretranslate \
      --argos PACKAGE --python ENVIRONMENT/bin/python

Needs wrk (`apt-get install wrk`). Compares with `mtkit translate` on the same folder, or with
LibreTranslate in its own environment, with the same model as a package (`mtkit export --format
argos`). Measures both alternately, `--rounds` times, on one machine; the ratio counts. Each caller
sends one line to /translate and waits for its response. Each rate comes with the CPU time of a
line, by process: on a busy machine it means more than the rate.
"""

import argparse
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.parse import urlencode
from urllib.request import urlopen

import psutil

MTKIT = [sys.executable, "-m", "mtkit"]
_SCRIPT = """
local lines, index = {}, 0
for line in io.lines("%s") do
  lines[#lines + 1] = line:gsub('\\\\', '\\\\\\\\'):gsub('"', '\\\\"')
end
wrk.method, wrk.headers["Content-Type"] = "POST", "application/json"
function request()
  index = index %% #lines + 1
  local body = '{"q":"' .. lines[index] .. '","source":"%s","target":"%s"}'
  return wrk.format(nil, "/translate", nil, body)
end
function done(summary, latency, requests)
  for _, share in ipairs({50, 95, 99}) do
    io.write(string.format("p%%d=%%.0fms\\n", share, latency:percentile(share) / 1000))
  end
end
"""


class Measured(NamedTuple):
    """What a load found.

    Attributes:
        rate: Lines per second.
        told: Latencies.
        own_seconds: CPU time of `wrk`.
    """

    rate: float
    told: str
    own_seconds: float


def count_children_seconds() -> float:
    """Returns the CPU time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def count_seconds(process: psutil.Process) -> float:
    """Returns the CPU time of a process."""
    used = process.cpu_times()
    return used.user + used.system


def measure_translate(model: str, source: Path, folder: Path) -> tuple[float, float]:
    """Returns lines per second of `mtkit translate`, and CPU time of a line in ms.

    Both are without its start.
    """
    text = source.read_bytes()
    num_lines = text.count(b"\n")
    seconds, used = [], []
    for times in (1, 3):
        repeated = folder / "lines"
        repeated.write_bytes(text * times)
        started_at, used_before = time.perf_counter(), count_children_seconds()
        with repeated.open("rb") as lines:
            subprocess.run(
                [*MTKIT, "translate", "--model", model],
                stdin=lines,
                stdout=subprocess.DEVNULL,
                check=True,
            )
        seconds.append(time.perf_counter() - started_at)
        used.append(count_children_seconds() - used_before)
    rate = 2 * num_lines / (seconds[1] - seconds[0])
    return rate, 1_000 * (used[1] - used[0]) / (2 * num_lines)


def measure_load(address: str, script: Path, callers: int, seconds: int) -> Measured:
    """Returns requests per second and latencies."""
    before = count_children_seconds()
    command = ["wrk", "-t1", f"-c{callers}", f"-d{seconds}s", "--timeout", "120s"]
    said = subprocess.run(
        [*command, "-s", str(script), address], capture_output=True, text=True, check=True
    ).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        print(said, file=sys.stderr)
    found = re.search(r"Requests/sec:\s+([\d.]+)", said)
    assert found is not None
    assert float(found[1]), "not one answer: give it more --seconds"
    told = ", ".join(re.findall(r"^p\d+=\S+", said, re.MULTILINE))
    return Measured(float(found[1]), told, count_children_seconds() - before)


def measure_server(
    address: str, server: psutil.Process, script: Path, callers: int, seconds: int
) -> Measured:
    """Returns the same of mtkit's server, with the CPU time of a line by process."""
    processes = [server, *server.children()]
    before = [*map(count_seconds, processes)]
    found = measure_load(address, script, callers, seconds)
    used = [
        after - first for after, first in zip(map(count_seconds, processes), before, strict=True)
    ]
    front, model, wrk = (
        1_000 * each / (found.rate * seconds)
        for each in (used[0], sum(used[1:]), found.own_seconds)
    )
    times = f"ms of CPU time a line: server {front:.2f}, model {model:.2f}, wrk {wrk:.2f}"
    return found._replace(told=f"{found.told}; {times}")


def ask_once(address: str, languages: list[str]) -> None:
    """Translates a line, so that the model is loaded."""
    body = {"q": "A book.", "source": languages[0], "target": languages[1]}
    with urlopen(f"{address}translate", data=urlencode(body).encode(), timeout=300) as answer:
        answer.read()


@contextmanager
def serve_mtkit(model: str, overrides: list[str]) -> Iterator[tuple[str, psutil.Process]]:
    """Runs `mtkit serve`; gives its address and its process."""
    settings = [part for each in overrides for part in ("--set", each)]
    command = [*MTKIT, "serve", "--model", model, "--port", "0", *settings]
    with subprocess.Popen(
        [*command, "--set", "serve.log=none"], stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        try:
            address = server.stderr.readline().rsplit(" on ", 1)[1].strip()
            yield address, psutil.Process(server.pid)
        finally:
            server.send_signal(signal.SIGTERM)


@contextmanager
def serve_libretranslate(python: Path, package: Path) -> Iterator[str]:
    """Runs LibreTranslate; gives its address once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    script = Path(__file__).with_name("libretranslate_server.py").resolve()
    with subprocess.Popen(
        [python, script, package.resolve(), port], stdout=sys.stderr, stderr=sys.stderr
    ) as server:
        address = f"http://127.0.0.1:{port}/"
        try:
            while server.poll() is None:
                try:
                    with urlopen(f"{address}languages", timeout=10):
                        break
                except OSError:
                    time.sleep(0.2)
            yield address
        finally:
            server.kill()


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--languages", nargs=2, default=["en", "de"])
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 8, 64, 256])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pause", type=float, default=10.0, help="seconds after LibreTranslate")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--beside", choices=["translate", "libretranslate"], default="translate")
    parser.add_argument("--argos", type=Path, help="package of the same model")
    parser.add_argument("--python", type=Path, help="of the environment with libretranslate")
    asked = parser.parse_args()
    if asked.beside == "libretranslate" and not (asked.argos and asked.python):
        parser.error("--beside libretranslate needs --argos and --python")
    ratios: dict[int, list[float]] = {callers: [] for callers in asked.callers}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        script = folder / "load.lua"
        script.write_text(_SCRIPT % (asked.source.resolve(), *asked.languages))
        address, server = stack.enter_context(serve_mtkit(asked.model, asked.set))
        other = ""
        if asked.beside == "libretranslate":
            other = stack.enter_context(serve_libretranslate(asked.python, asked.argos))
            ask_once(other, asked.languages)
        ask_once(address, asked.languages)
        for _ in range(asked.rounds):
            if not other:
                plain, used = measure_translate(asked.model, asked.source, folder)
                print(
                    f"mtkit translate: {plain:.0f} lines/s; {used:.2f} ms of CPU time a line; "
                    f"load {os.getloadavg()[0]:.1f}",
                    flush=True,
                )
            for callers in asked.callers:
                if other:
                    plain, told, _ = measure_load(other, script, callers, asked.seconds)
                    print(f"{callers} callers: LibreTranslate {plain:.1f} lines/s; {told}")
                    # Requests that wrk left unfinished would take CPU time from the other server.
                    time.sleep(asked.pause)
                rate, told, _ = measure_server(address, server, script, callers, asked.seconds)
                ratios[callers].append(rate / plain)
                print(f"{callers} callers: mtkit serve {rate:.1f} lines/s; {told}", flush=True)
    for callers, found in ratios.items():
        told = ", ".join(f"{each:.2f}" for each in found)
        print(f"{callers} callers: {median(found):.2f} times {asked.beside} ({told})")


if __name__ == "__main__":
    main()
