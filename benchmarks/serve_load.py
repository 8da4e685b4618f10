"""Throughput and latency of `mtkit serve` under load, beside `mtkit translate` on the same lines.

    python benchmarks/serve_load.py --model FOLDER --source FILE [--callers 1 8 64 256]

Needs wrk (`apt-get install wrk`). Both are measured in turn, `--rounds` times, on one machine; the
ratio counts. Each caller sends one line to /translate and waits for its answer.
"""

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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
"""


def measure_translate(model: str, source: Path, folder: Path) -> float:
    """Returns lines per second of `mtkit translate`, without its start."""
    text = source.read_bytes()
    num_lines = text.count(b"\n")
    seconds = []
    for times in (1, 3):
        repeated = folder / "lines"
        repeated.write_bytes(text * times)
        started_at = time.perf_counter()
        with repeated.open("rb") as lines:
            subprocess.run(
                [*MTKIT, "translate", "--model", model],
                stdin=lines,
                stdout=subprocess.DEVNULL,
                check=True,
            )
        seconds.append(time.perf_counter() - started_at)
    return 2 * num_lines / (seconds[1] - seconds[0])


def measure_load(address: str, script: Path, callers: int, seconds: int) -> tuple[float, str]:
    """Returns requests per second and wrk's latencies."""
    command = ["wrk", "-t1", f"-c{callers}", f"-d{seconds}s", "--latency", "--timeout", "120s"]
    said = subprocess.run(
        [*command, "-s", str(script), address], capture_output=True, text=True, check=True
    ).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        print(said, file=sys.stderr)
    found = re.search(r"Requests/sec:\s+([\d.]+)", said)
    latencies = re.findall(r"^\s+(50|90|99)%\s+(\S+)", said, re.MULTILINE)
    assert found is not None
    return float(found[1]), ", ".join(f"p{share} {value}" for share, value in latencies)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--languages", nargs=2, default=["en", "de"])
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 8, 64, 256])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / "load.lua"
        script.write_text(_SCRIPT % (asked.source.resolve(), *asked.languages))
        settings = [part for each in asked.set for part in ("--set", each)]
        command = [*MTKIT, "serve", "--model", asked.model, "--port", "0", *settings]
        with subprocess.Popen(
            [*command, "--set", "serve.log=none"], stderr=subprocess.PIPE, text=True
        ) as server:
            assert server.stderr is not None
            address = server.stderr.readline().rsplit(" on ", 1)[1].strip()
            for _ in range(asked.rounds):
                plain = measure_translate(asked.model, asked.source, folder)
                print(f"mtkit translate: {plain:.0f} lines/s", flush=True)
                for callers in asked.callers:
                    rate, latencies = measure_load(address, script, callers, asked.seconds)
                    print(
                        f"{callers} callers: {rate:.0f} lines/s, {rate / plain:.2f} of it; "
                        f"{latencies}",
                        flush=True,
                    )
            server.send_signal(signal.SIGTERM)


if __name__ == "__main__":
    main()
