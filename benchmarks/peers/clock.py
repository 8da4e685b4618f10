"""Runs a command and logs the CPU time of its processes every few seconds.

    python benchmarks/peers/clock.py LOG COMMAND [ARGUMENT ...]

The log gets a JSON line every few seconds: `at`, the time in seconds since 1970, and
`processor_seconds`, of all processes together. `spent_at` reads from it what a training had taken
when it saved a checkpoint: on a machine that others use too, minutes of CPU time are the ones
that can be compared.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil

_EVERY_SECONDS = 2.0


def spent_at(log: Path, moment: float) -> float:
    """Returns the CPU seconds until a moment, from the first log line after it."""
    notes = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    later = [note["processor_seconds"] for note in notes if note["at"] >= moment]
    return float(later[0] if later else notes[-1]["processor_seconds"])


def processor_seconds(process: psutil.Process) -> float:
    """Returns what a process and all that it started have taken, those that have ended included."""
    times = process.cpu_times()
    ended = times.children_user + times.children_system
    spent = float(times.user + times.system + ended)
    for child in process.children():
        try:
            spent += processor_seconds(child)
        except psutil.NoSuchProcess:
            continue
    return spent


def main() -> None:
    log, *command = sys.argv[1:]
    if Path(log).exists():
        sys.exit(f"{log} exists already: a resumed training needs its own log")
    process = subprocess.Popen(command)
    watched = psutil.Process(process.pid)
    with Path(log).open("a", encoding="utf-8") as notes:
        while process.poll() is None:
            try:
                spent = processor_seconds(watched)
            except psutil.NoSuchProcess:
                break
            notes.write(json.dumps({"at": time.time(), "processor_seconds": spent}) + "\n")
            notes.flush()
            time.sleep(_EVERY_SECONDS)
    sys.exit(process.wait())


if __name__ == "__main__":
    main()
