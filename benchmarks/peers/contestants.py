"""Who takes part in translate_speed.py, how each is made ready, and how each is timed."""

import argparse
import contextlib
import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peers.machine import environment_of, run_worker

from mtkit.errors import MtkitError

PEERS = Path(__file__).parent
Measured = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """Facts of a model that all contestants get.

    Attributes:
        model: mtkit's folder.
        folder: Where exports, checkpoints and translations go.
        overrides: What is set in mtkit.
        search: The same for the peers: `beam_size`, `alpha`, `min_length`, `max_length`.
        lines: The `source`, and how many lines of it to warm up with (`warm_up`) and to choose
            batches by (`tuning_lines`).
        num_lines: Lines of the source.
        threads: How many each may use.
        time_limit: Seconds that one run may take.
    """

    model: Path
    folder: Path
    overrides: list[str]
    search: dict[str, Any]
    lines: dict[str, Any]
    num_lines: int
    threads: int
    time_limit: float


@dataclass
class Contestant:
    """A system in one precision or type, and what was measured of it.

    Attributes:
        system: One of `SYSTEMS`.
        precision: mtkit's precision, or the type that weights were exported to.
        python: The interpreter that it runs with.
        worker: Its script in `peers/`.
        task: The script's settings.
        command: What a user would run; source on stdin, translations on stdout. A worker that is
            asked to, where it is empty.
        rounds: What each round measured, by measure; None where it failed.
    """

    system: str
    precision: str
    python: str
    worker: str
    task: dict[str, Any]
    command: list[str] = field(default_factory=list)
    rounds: list[dict[str, Measured | None]] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Name and precision, as the table has them."""
        names = {
            "mtkit": "mtkit",
            "ctranslate2": "CTranslate2's client",
            "onmt": "OpenNMT-py",
        }
        return f"{names[self.system]}, {self.precision}"

    @property
    def task_path(self) -> Path:
        """The file that the worker reads."""
        return Path(self.task["output"]).with_suffix(".json")


def list_contestants(given: Plan, options: argparse.Namespace) -> list[Contestant]:
    """Returns who takes part, exports made.

    Raises:
        MtkitError: Nobody does.
    """
    systems = options.systems.split(",")
    found = []
    if "mtkit" in systems:
        found += [_mtkit(given, precision) for precision in options.precision.split(",")]
    for quantization in options.quantization.split(",") if "ctranslate2" in systems else []:
        exported = _export(given, quantization)
        if exported is not None:
            python = options.ctranslate2_python
            found.append(_peer(given, "ctranslate2", exported, quantization, python))
    if "onmt" in systems and options.environments is not None:
        python = str(options.environments.absolute() / "onmt" / "bin" / "python")
        found.append(_peer(given, "onmt", given.model, "fp32", python))
    if not found:
        raise MtkitError("nothing to measure", "--systems; onmt needs --environments")
    return found


def _mtkit(given: Plan, precision: str) -> Contestant:
    overrides = [*given.overrides, f"inference.precision={precision}"]
    command = [sys.executable, "-m", "mtkit", "translate", "--model", str(given.model)]
    command += ["--device", "cpu"]
    for override in overrides:
        command += ["--set", override]
    return Contestant(
        "mtkit",
        precision,
        sys.executable,
        "mtkit_translate_worker.py",
        {
            **_describe(given, "mtkit", precision),
            "model": str(given.model),
            "overrides": overrides,
        },
        command,
    )


def _peer(given: Plan, system: str, model: Path, precision: str, python: str) -> Contestant:
    worker = "ctranslate2_worker.py" if system == "ctranslate2" else "onmt_translate_worker.py"
    task = {**_describe(given, system, precision), **given.search, "model": str(model)}
    return Contestant(system, precision, python, worker, task)


def _describe(given: Plan, system: str, precision: str) -> dict[str, Any]:
    """Returns the settings of every worker."""
    return {
        **given.lines,
        "folder": str(given.folder),
        "output": str(given.folder / f"{system}-{precision}.txt"),
        "threads": given.threads,
    }


def _export(given: Plan, quantization: str) -> Path | None:
    """Returns what mtkit exported; None, and says why, where it couldn't."""
    output = given.folder / f"export-{quantization}"
    command = [sys.executable, "-m", "mtkit", "export", "--model", str(given.model)]
    command += ["--output", str(output), "--quantization", quantization]
    done = run_worker(command, threads=given.threads, time_limit=given.time_limit)
    if done.returncode:
        _complain(f"export to {quantization}", done)
        return None
    return output


def make_ready(contestant: Contestant, given: Plan) -> bool:
    """Checks that a contestant runs; a peer's checkpoint is made and its batches chosen."""
    contestant.task_path.write_text(json.dumps(contestant.task), "utf-8")
    if contestant.command:
        return measure(contestant, given, "first") is not None
    if contestant.system == "onmt":
        done = _run(contestant, given, "convert")
        if done.returncode:
            _complain(f"{contestant.label}: convert", done)
            return False
    tuned = _read(contestant, given, "tune")
    if tuned is None:
        return False
    contestant.task["settings"] = tuned["fastest"]
    contestant.task["tried"] = tuned["tried"]
    contestant.task_path.write_text(json.dumps(contestant.task), "utf-8")
    return True


def measure(contestant: Contestant, given: Plan, what: str) -> Measured | None:
    """Returns what a contestant took; None, and says why, where it failed or can't.

    Args:
        contestant: Who.
        given: With what.
        what: `first`: from the start until one line's translation is out; `whole`: from the start
            to the end of the process, all lines; `steady`: all lines, loaded and warm.
    """
    match what:
        case "steady":
            return _read(contestant, given, "steady")
        case "first" if contestant.system == "onmt":
            # It writes to a file, which it must be able to read, too.
            return None
        case "first":
            return _time_first_line(contestant, given)
        case _:
            return _time_whole(contestant, given)


def _worker(contestant: Contestant, what: str) -> list[str]:
    script = str(PEERS / contestant.worker)
    return [contestant.python, script, str(contestant.task_path), what]


def _run(contestant: Contestant, given: Plan, what: str) -> subprocess.CompletedProcess[str]:
    command = _worker(contestant, what)
    return run_worker(command, threads=given.threads, time_limit=given.time_limit)


def _read(contestant: Contestant, given: Plan, what: str) -> Measured | None:
    """Returns the JSON line that a worker printed; None, and says why, where it failed."""
    done = _run(contestant, given, what)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"')]
    if done.returncode or not lines:
        _complain(f"{contestant.label}: {what}", done)
        return None
    measured: Measured = json.loads(lines[-1])
    return measured


def _time_whole(contestant: Contestant, given: Plan) -> Measured | None:
    command = contestant.command or _worker(contestant, "whole")
    output = Path(contestant.task["output"])
    output.unlink(missing_ok=True)
    # OpenNMT-py writes its file itself, and other things to stdout.
    target = output.with_suffix(".log") if contestant.system == "onmt" else output
    errors = output.with_suffix(".errors")
    environment = environment_of(command, threads=given.threads)
    with (
        Path(given.lines["source"]).open("rb") as lines,
        target.open("wb") as translations,
        errors.open("wb") as complaints,
    ):
        started_at = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=lines, stdout=translations, stderr=complaints, env=environment
        )
        try:
            code = process.wait(given.time_limit)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        seconds = time.perf_counter() - started_at
    found = output.read_bytes().count(b"\n") if output.is_file() else 0
    if code or found != given.num_lines:
        report = (
            errors.read_text("utf-8", errors="replace") + f"{found} lines of {given.num_lines}\n"
        )
        _complain(
            f"{contestant.label}: whole", subprocess.CompletedProcess(command, code, "", report)
        )
        return None
    return {"seconds": seconds, "sentences": given.num_lines}


def _time_first_line(contestant: Contestant, given: Plan) -> Measured | None:
    command = contestant.command or _worker(contestant, "whole")
    first = Path(given.lines["source"]).read_bytes().partition(b"\n")[0] + b"\n"
    errors = Path(contestant.task["output"]).with_suffix(".errors")
    with errors.open("wb") as complaints:
        started_at = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=environment_of(command, threads=given.threads),
        )
        assert process.stdin is not None
        assert process.stdout is not None
        too_late = threading.Timer(given.time_limit, process.kill)
        too_late.start()
        with process:
            # It may have failed and be gone.
            with contextlib.suppress(BrokenPipeError), process.stdin as lines:
                lines.write(first)
            translation = process.stdout.readline()
            seconds = time.perf_counter() - started_at
        too_late.cancel()
    if process.returncode or not translation.strip():
        report = errors.read_text("utf-8", errors="replace")
        _complain(
            f"{contestant.label}: first line",
            subprocess.CompletedProcess(command, process.returncode, "", report),
        )
        return None
    return {"seconds": seconds, "sentences": 1}


def _complain(what: str, done: subprocess.CompletedProcess[str]) -> None:
    print(f"{what}: failed ({done.returncode})", file=sys.stderr)
    print("\n".join(done.stderr.splitlines()[-15:]), file=sys.stderr)
