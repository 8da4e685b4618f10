"""A full disk, a read-only one, a second training, Ctrl-C once and twice."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mtkit.training.checkpoint_folder import CheckpointFolder

pytestmark = pytest.mark.slow

WITHOUT_END = ("training.max_steps=100000", "training.validation.num_samples=0")


@pytest.fixture
def small_disk(tiny_run: Callable, tmp_path: Path) -> Iterator[Callable]:
    """A function that remounts the small disk, of so many KiB, where the run's workspace lies."""
    mount = shutil.which("mount")
    place = tmp_path / "run"
    tiny_run(name="prepared")
    place.mkdir()
    command = [str(mount), "-t", "tmpfs", "-o", "size=700k", "tmpfs", str(place)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this user can't mount a disk")
    shutil.copytree(tmp_path / "prepared", place, dirs_exist_ok=True)

    def remount(option: str) -> None:
        subprocess.run([mount, "-o", f"remount,{option}", str(place)], check=True)

    yield remount
    subprocess.run(["umount", str(place)], check=True)


def train(run, *options: str) -> tuple[int, str]:
    done = subprocess.run(
        run.command("train", *options),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stderr


def start(run, *options: str, environment: dict | None = None) -> subprocess.Popen[str]:
    """Returns a training that has saved a first checkpoint."""
    command = run.command("train", *options)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    give_up_at = time.monotonic() + 120
    while not any(run.workspace.checkpoints.glob("step-*")):
        assert process.poll() is None
        assert time.monotonic() < give_up_at
        time.sleep(0.02)
    return process


@pytest.mark.parametrize(
    "options", [(), pytest.param(("--processes", "2"), marks=pytest.mark.patient)]
)
def test_a_disk_that_fills_up_while_saving(tiny_run, small_disk, options) -> None:
    run = tiny_run("training.keep_last=100", "training.checkpoint_every=1", "training.max_steps=8")
    code, said = train(run, *options)
    assert code == 1
    [error] = [line for line in said.splitlines() if line.startswith("error:")]
    assert "No space left on device" in error
    assert f"{run.workspace.root}" in error
    assert "hint: free some disk space, then run the same command again" in said
    saved = CheckpointFolder(run.workspace.checkpoints).list()
    assert saved
    for checkpoint in saved:
        checkpoint.check()
    assert not any(run.workspace.checkpoints.glob(".step-*.draft"))
    small_disk("size=20m")
    code, said = train(run, *options)
    assert code == 0
    assert f"resuming from step {saved[-1].state.step}:" in said


def test_a_read_only_workspace(tiny_run, small_disk) -> None:
    small_disk("ro")
    code, said = train(tiny_run())
    assert code == 1
    [error, hint] = [line for line in said.splitlines() if line.startswith(("error", "hint"))]
    assert error.endswith("Read-only file system")
    assert hint == "hint: choose a folder that can be written to"


@pytest.mark.patient
def test_a_second_training_in_the_same_workspace_is_refused(tiny_run) -> None:
    run = tiny_run(*WITHOUT_END)
    first = start(run)
    try:
        for options in ((), ("--processes", "2")):
            code, said = train(run, *options)
            assert code == 1
            assert "`mtkit train` can't start: another mtkit command is running here" in said
        first.send_signal(signal.SIGTERM)
        _, said = first.communicate(timeout=60)
        assert first.returncode == 75
    finally:
        first.kill()


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.patient)]
)
@pytest.mark.parametrize(
    "options", [(), pytest.param(("--processes", "2"), marks=pytest.mark.patient)]
)
def test_a_stop_saves_and_says_what_goes_on(tiny_run, options, number) -> None:
    run = tiny_run(*WITHOUT_END)
    process = start(run, *options)
    try:
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 75, said
    assert "Traceback" not in said
    assert "a checkpoint was saved" in said
    last = CheckpointFolder(run.workspace.checkpoints).list()[-1]
    assert f"stopped at step {last.state.step:,}" in said
    [command] = [line for line in said.splitlines() if line.startswith("to resume: ")]
    assert command.split()[2:4] == ["mtkit", "train"]
    assert command.endswith(" ".join(("training.validation.num_samples=0", *options)))


@pytest.mark.patient
@pytest.mark.parametrize("options", [(), ("--processes", "2")])
def test_a_second_ctrl_c_ends_at_once(tiny_run, faulty, options) -> None:
    run = tiny_run(*WITHOUT_END, "training.checkpoint_every=2")
    # An update without end, which the first Ctrl-C waits for.
    process = start(run, *options, environment=faulty("sleep:0:3"))
    try:
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        time.sleep(2)
        assert process.poll() is None
        said = None
        for _ in range(6):
            # Two that come while the process is busy outside of Python count as one.
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                _, said = process.communicate(timeout=10)
                break
        assert said is not None
    finally:
        process.kill()
    assert process.returncode == 130, said
    assert said.endswith("interrupted\n")
    assert "Traceback" not in said
    [saved] = CheckpointFolder(run.workspace.checkpoints).list()
    saved.check()
    assert saved.state.step == 2
    # The workers have noticed that nobody waits for them: the workspace is free again.
    time.sleep(4)
    assert train(tiny_run("training.max_steps=3"))[0] == 0


@pytest.mark.patient
@pytest.mark.parametrize("options", [(), ("--processes", "2")])
def test_a_stop_that_cannot_be_saved_is_no_stop(tiny_run, options) -> None:
    run = tiny_run(*WITHOUT_END, "training.checkpoint_every=100000")
    process = subprocess.Popen(run.command("train", *options), stderr=subprocess.PIPE, text=True)
    try:
        give_up_at = time.monotonic() + 120
        while not (metrics := run.workspace.metrics_file).exists() or not metrics.stat().st_size:
            assert time.monotonic() < give_up_at
            time.sleep(0.05)
        run.workspace.checkpoints.touch()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 1, said
    [error] = [line for line in said.splitlines() if line.startswith("error:")]
    assert str(run.workspace.checkpoints) in error
    assert "to resume: mtkit" not in said


def test_another_ctrl_c_while_the_process_ends_prints_nothing() -> None:
    code = """
import atexit, signal
from mtkit.cli import app

def interrupt(**settings):
    raise KeyboardInterrupt

app.app = interrupt
atexit.register(signal.raise_signal, signal.SIGINT)
app.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == "interrupted\n"
    assert done.returncode == -signal.SIGINT
