"""A training killed at moments that chance chose, resumed, and compared with one never killed.

python tests/faults/kill_and_resume.py --kills 20 [--processes 2] [--folder FOLDER] [--seed 1]

Each kill starts `mtkit train` in a fresh copy of one prepared workspace, ends all its processes
with `kill -9`, gives the same command again and compares what is left at the end: every file of
every checkpoint, the model, and all that was measured but for times. Of five kills two are aimed at
the saving of a checkpoint, one at its validation, two at no moment in particular. With several
processes every fourth kill hits the launcher alone: its workers must end by themselves.
"""

import argparse
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from mtkit.training.metrics import read_metrics

COMMAND = (sys.executable, "-m", "mtkit")
RECIPE = Path(__file__).parent.parent / "tiny.toml"
NUM_STEPS = 100
SETTINGS = (
    "training.checkpoint_every=4",
    "training.log_every=1",
    "training.log_digests=true",
    "training.moving_average.decay=0.9",
)
AIMS = ("saving", "any moment", "validating", "any moment", "saving")
AIMED_AT = 0.44
"""The part of the training in which kills come; some checkpoints are still to come, in case that
the first is missed."""
LONGEST_SAVE_SECONDS = 0.03
LONGEST_VALIDATION_SECONDS = 0.15
LONGEST_DELAY_SECONDS = 0.5
NO_PICTURES = """\
from mtkit.training.metrics_log import MetricsLog
MetricsLog.draw = lambda log: None
"""
PATIENCE_SECONDS = 300
WORKERS_END_SECONDS = 10
"""The watch of a worker looks for its launcher once a second."""
TIMES = ("elapsed_seconds", "checkpoint_seconds", "target_tokens_per_second", "memory_bytes")


@dataclass(frozen=True)
class Kill:
    """One kill, and what came of it.

    Attributes:
        aim: What it was aimed at.
        moment: When it came: `0.31 s after step 17`.
        step: The last step that was logged.
        phase: What training was at.
        victims: What was killed.
        resumed_from: The newest checkpoint that was left.
        differences: What is other than in the training that was never killed.
    """

    aim: str
    moment: str
    step: int
    phase: str
    victims: str
    resumed_from: int
    differences: list[str]

    def describe(self) -> str:
        """Returns it as a line."""
        shown = self.differences[:3]
        others = [f"{len(self.differences) - 3} more"] * (len(self.differences) > 3)
        verdict = "DIFFERS: " + "; ".join(shown + others) if shown else "equal"
        return (
            f"aimed at {self.aim}, {self.moment}; killed {self.victims} at step {self.step}, "
            f"{self.phase}; resumed from step {self.resumed_from}: {verdict}"
        )


class Harness:
    """Prepares a run, trains it without a kill, and then with one each time.

    Args:
        folder: Where workspaces go; those of equal runs are removed again.
        recipe: What is trained.
        num_processes: How many train together.
        num_steps: Updates of a training.
        seed: Of the moments.
        command: What to type for `mtkit` where it isn't killed.
    """

    def __init__(
        self,
        folder: Path,
        *,
        recipe: Path = RECIPE,
        num_processes: int = 1,
        num_steps: int = NUM_STEPS,
        seed: int = 1,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._folder = folder
        self._recipe = recipe
        self._num_processes, self._num_steps = num_processes, num_steps
        self._chance = random.Random(seed)
        self._undisturbed = command
        self._environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._prepared = folder / "prepared"
        self._expected = folder / "never-killed"

    def prepare(self) -> None:
        """Leaves a prepared workspace, and a copy of it that was trained without a kill."""
        self._run("prepare", self._prepared)
        # Drawing curves takes ten times as long as saving, and would get most of the kills. Every
        # Python process, a worker too, imports this by itself.
        blind = self._folder / "no-pictures"
        blind.mkdir()
        (blind / "sitecustomize.py").write_text(NO_PICTURES, "utf-8")
        paths = [str(blind), self._environment.get("PYTHONPATH", "")]
        self._environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        shutil.copytree(self._prepared, self._expected)
        self._run("train", self._expected)

    def kill(self, number: int) -> Kill:
        """Returns what came of a kill; its number says what it is aimed at."""
        workspace = self._folder / f"kill-{number}"
        shutil.copytree(self._prepared, workspace)
        aim = AIMS[number % len(AIMS)]
        step = self._chance.randint(1, int(AIMED_AT * self._num_steps))
        is_launcher_alone = self._num_processes > 1 and number % 4 == 3
        command = [*COMMAND, *self._options("train", workspace)]
        with subprocess.Popen(
            command, env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as training:
            try:
                moment = self._wait_for(aim, step, workspace, training)
                tree = processes_of(training)
                killed_at, phase = last_step(workspace), look(workspace / "checkpoints")
                for process in tree[:1] if is_launcher_alone else tree:
                    process.kill()
                for process in tree if is_launcher_alone else []:
                    thaw(process)
                faults = wait_until_gone(tree[1:])
            finally:
                for process in processes_of(training):
                    process.kill()
        saved = sorted((workspace / "checkpoints").glob("step-*"))
        self._run("train", workspace)
        differences = faults + compare(workspace, self._expected)
        if not differences:
            shutil.rmtree(workspace)
        return Kill(
            aim=aim,
            moment=moment,
            step=killed_at,
            phase=phase,
            victims="the launcher"
            if is_launcher_alone
            else f"all {len(tree)} processes"
            if self._num_processes > 1
            else "it",
            resumed_from=int(saved[-1].name.removeprefix("step-")) if saved else 0,
            differences=differences,
        )

    def _wait_for(self, aim: str, step: int, workspace: Path, training: subprocess.Popen) -> str:
        """Returns a phrase for the moment that is aimed at; all processes stand still in it."""
        clock = still_running(training)
        while last_step(workspace) < step:
            next(clock)
            time.sleep(0.005)
        reached_at = time.monotonic()
        checkpoints = workspace / "checkpoints"
        is_there, longest_seconds = _TARGETS[aim]
        while True:
            while not is_there(checkpoints):
                next(clock)
                time.sleep(0.0005)
            time.sleep(self._chance.uniform(0.0, longest_seconds))
            with frozen(training) as keep:
                # It may have come to the next thing meanwhile: then the next time, and sooner.
                if aim in ("any moment", look(checkpoints).split()[0]):
                    keep()
                    return f"{time.monotonic() - reached_at:.3f} s after step {step}"
            longest_seconds /= 2
            next(clock)

    def _options(self, name: str, workspace: Path) -> list[str]:
        options = [name, "--recipe", str(self._recipe), "--workspace", str(workspace)]
        for setting in (f"training.max_steps={self._num_steps}", *SETTINGS):
            options += ["--set", setting]
        several = ["--processes", str(self._num_processes)] if self._num_processes > 1 else []
        return options + (several if name == "train" else [])

    def _run(self, name: str, workspace: Path) -> None:
        done = subprocess.run(
            [*self._undisturbed, *self._options(name, workspace)],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"mtkit {name}: exit code {done.returncode}:\n{done.stderr}")


def is_saving(checkpoints: Path) -> bool:
    """Returns whether a checkpoint is being written."""
    return any(checkpoints.glob(".step-*.draft"))


def is_validating(checkpoints: Path) -> bool:
    """Returns whether a checkpoint has been written, and has no score yet."""
    with suppress(FileNotFoundError, ValueError):
        newest = max(checkpoints.glob("step-*"))
        return json.loads((newest / "state.json").read_text("utf-8"))["score"] is None
    return False


_TARGETS: dict[str, tuple[Callable[[Path], bool], float]] = {
    "saving": (is_saving, LONGEST_SAVE_SECONDS),
    "validating": (is_validating, LONGEST_VALIDATION_SECONDS),
    "any moment": (lambda _: True, LONGEST_DELAY_SECONDS),
}


def look(checkpoints: Path) -> str:
    """Returns what a training that stands still is at, by what lies in its folder."""
    for draft in checkpoints.glob(".step-*.draft"):
        # The name is .step-STEP.PROCESS-CHANCE.draft; see `mtkit.folders.draft_of`.
        step = int(draft.name.removeprefix(".step-").partition(".")[0])
        return f"saving step {step}, {len(list(draft.iterdir()))} files begun"
    if any(checkpoints.glob(".step-*.discarded")):
        return "removing an old checkpoint"
    if any(checkpoints.glob("step-*/.state.json.*.draft")):
        return "recording a score"
    return "validating" if is_validating(checkpoints) else "making updates"


def last_step(workspace: Path) -> int:
    """Returns the last step that was logged; 0 before the first."""
    lines = read_metrics(workspace / "metrics.jsonl")
    return int(lines[-1]["step"]) if lines else 0


def compare(workspace: Path, expected: Path) -> list[str]:
    """Returns what differs between two finished runs, but for times."""
    logs = [
        # An event tells that training was resumed.
        [
            without_times(line)
            for line in read_metrics(root / "metrics.jsonl")
            if line["kind"] != "event"
        ]
        for root in (workspace, expected)
    ]
    pairs = itertools.zip_longest(*logs)
    differences = [f"first, {line}, not {wanted}" for line, wanted in pairs if line != wanted][:1]
    folders = [root / "checkpoints" for root in (workspace, expected)]
    names = [sorted(path.name for path in folder.iterdir()) for folder in folders]
    if names[0] != names[1]:
        differences.append(f"checkpoints {', '.join(names[0])}, not {', '.join(names[1])}")
    for name in sorted(set(names[0]) & set(names[1])):
        states = [json.loads((folder / name / "state.json").read_text()) for folder in folders]
        for facts in states:
            facts["state"] = without_times(facts["state"])
        differences += [
            f"{name}: {key} in state.json" for key in states[0] if states[0][key] != states[1][key]
        ]
        differences += compare_bytes(folders[0] / name, folders[1] / name)
    return differences + compare_bytes(workspace / "model", expected / "model")


def compare_bytes(folder: Path, expected: Path) -> list[str]:
    """Returns which files of numbers have other bytes."""
    files = sorted(path.name for path in expected.glob("*.safetensors"))
    if not files:
        raise RuntimeError(f"{expected}: no numbers to compare")
    return [
        f"{folder.name}/{name} has other bytes"
        for name in files
        if (folder / name).read_bytes() != (expected / name).read_bytes()
    ]


def without_times(facts: dict[str, Any]) -> dict[str, Any]:
    """Returns facts that a slower machine leaves as they are."""
    return {key: value for key, value in facts.items() if key not in TIMES}


def still_running(training: subprocess.Popen) -> Iterator[None]:
    """Yields as long as a training runs.

    Raises:
        RuntimeError: It has ended, or takes too long.
    """
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while training.poll() is None and time.monotonic() < give_up_at:
        yield
    raise RuntimeError(f"{training.args}: ended, or too slow, before it was killed")


def processes_of(training: subprocess.Popen) -> list[psutil.Process]:
    """Returns a training's process and all that descend from it."""
    with suppress(psutil.NoSuchProcess):
        launcher = psutil.Process(training.pid)
        return [launcher, *launcher.children(recursive=True)]
    return []


@contextmanager
def frozen(training: subprocess.Popen) -> Iterator[Callable[[], None]]:
    """Keeps a training's processes from going on while the block runs, and after it if asked to."""
    is_kept = []
    tree = processes_of(training)
    for process in tree:
        process.suspend()
    for process in tree:
        give_up_at = time.monotonic() + 5
        while process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
            if time.monotonic() > give_up_at:
                raise RuntimeError(f"process {process.pid} doesn't stand still")
            time.sleep(0.0005)
    yield lambda: is_kept.append(True)
    if not is_kept:
        for process in tree:
            thaw(process)


def thaw(process: psutil.Process) -> None:
    """Lets a process go on, if there is one."""
    with suppress(psutil.NoSuchProcess):
        process.resume()


def wait_until_gone(workers: list[psutil.Process]) -> list[str]:
    """Returns faults: workers that go on without their launcher, which are killed."""
    give_up_at = time.monotonic() + WORKERS_END_SECONDS
    while alive := [worker for worker in workers if is_alive(worker)]:
        if time.monotonic() > give_up_at:
            for worker in alive:
                worker.kill()
            return [f"{len(alive)} workers went on for {WORKERS_END_SECONDS} s after the kill"]
        time.sleep(0.05)
    return []


def is_alive(process: psutil.Process) -> bool:
    """Returns whether a process runs; one that nobody has buried doesn't."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def main() -> int:
    """Returns the exit code: 1 where a run differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="kept, with the runs that differ")
    options = parser.parse_args()
    began_at = time.monotonic()
    with TemporaryDirectory(prefix="mtkit-kills-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        harness = Harness(folder, num_processes=options.processes, seed=options.seed)
        harness.prepare()
        num_equal = 0
        for number in range(options.kills):
            kill = harness.kill(number)
            num_equal += not kill.differences
            print(f"{number + 1:3}. {kill.describe()}", flush=True)
    seconds = time.monotonic() - began_at
    print(f"{num_equal} of {options.kills} equal, in {seconds:.0f} s", flush=True)
    return int(num_equal < options.kills)


if __name__ == "__main__":
    sys.exit(main())
