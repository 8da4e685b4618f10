"""Two launchers that meet, as on two machines: they train together, and outlive each other."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mtkit.training.checkpoint_folder import CheckpointFolder

pytestmark = pytest.mark.slow

LONG = ("training.max_steps=100000", "training.checkpoint_every=20", "training.log_every=20")


def meeting_place() -> str:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return f"localhost:{probe.getsockname()[1]}"


def wait_until_open(place: str) -> None:
    host, port = place.split(":")
    give_up_at = time.monotonic() + 60
    while time.monotonic() < give_up_at:
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("no launcher came to the meeting place")


@contextmanager
def machine(run, place: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Yields the launcher of one of two machines; it is gone when the block ends."""
    command = run.cold_command(
        "train", "--processes", "1", "--nodes", "2", "--rdzv", place, *options
    )
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        # The first to come hosts the meeting.
        wait_until_open(place)
        yield process
    finally:
        process.kill()
        process.communicate()


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Returns exit code and stderr of a launcher that ends by itself."""
    _, said = process.communicate(timeout=120)
    assert "Traceback" not in said, said
    return process.returncode, said


def wait_for_checkpoint(run, *, after: int = 0) -> int:
    give_up_at = time.monotonic() + 120
    while time.monotonic() < give_up_at:
        steps = [
            int(f.name.removeprefix("step-")) for f in run.workspace.checkpoints.glob("step-*")
        ]
        if steps and max(steps) > after:
            return max(steps)
        time.sleep(0.05)
    raise AssertionError("no checkpoint came")


def last_step(run) -> int:
    return CheckpointFolder(run.workspace.checkpoints).list()[-1].state.step


@pytest.mark.patient
def test_two_machines_train_as_two_processes_do(tiny_run) -> None:
    run, whole = tiny_run(), tiny_run(name="whole")
    place = meeting_place()
    with machine(run, place) as first, machine(run, place) as second:
        ends = [end(first), end(second)]
    assert [code for code, _ in ends] == [0, 0]
    # Whichever came to be the first process speaks.
    assert sum(said.count("= 2 x cpu x ") for _, said in ends) == 1
    command = whole.cold_command("train", "--processes", "2")
    subprocess.run(command, stderr=subprocess.DEVNULL, check=True)
    assert run.weights() == whole.weights()


@pytest.mark.patient
@pytest.mark.parametrize("host_is_lost", [False, True])
def test_one_machine_lost_ends_the_other_and_both_go_on(tiny_run, host_is_lost: bool) -> None:
    run = tiny_run(*LONG)
    place = meeting_place()
    with machine(run, place) as first, machine(run, place) as second:
        wait_for_checkpoint(run)
        lost, other = (first, second) if host_is_lost else (second, first)
        lost.send_signal(signal.SIGKILL)
        began_at = time.monotonic()
        code, said = end(other)
        assert time.monotonic() - began_at < 60
    assert code == 1
    [error] = [line for line in said.splitlines() if line.startswith("error:")]
    # Whichever is noticed first: the other's worker, or where they met.
    assert "lost worker " in error or (host_is_lost and f"{place}: lost" in error)
    step = last_step(run)
    place = meeting_place()
    goes_on = tiny_run(f"training.max_steps={step + 3}", *LONG[1:])
    with machine(goes_on, place) as first, machine(goes_on, place) as second:
        ends = [end(first), end(second)]
    assert [code for code, _ in ends] == [0, 0]
    assert any(f"resuming from step {step:,}" in said for _, said in ends)


@pytest.mark.patient
def test_a_machine_that_comes_back_is_waited_for(tiny_run) -> None:
    run = tiny_run(*LONG)
    place = meeting_place()
    restarts = ("--max-restarts", "2")
    with machine(run, place, *restarts) as first:
        with machine(run, place, *restarts) as second:
            step = wait_for_checkpoint(run)
            second.send_signal(signal.SIGKILL)
        with machine(run, place, *restarts) as second:
            wait_for_checkpoint(run, after=step + 20)
            first.send_signal(signal.SIGTERM)
            ends = [end(first), end(second)]
    # Either was asked to stop; both saved together, and say what goes on.
    assert [code for code, _ in ends] == [75, 75]
    assert all("to resume: mtkit train" in said for _, said in ends)
    assert any("stopped at step" in said for _, said in ends)


@pytest.mark.parametrize("place", ["no-such-host.invalid:29500", ":29500", "localhost"])
def test_a_meeting_place_that_is_none_is_told(tiny_run, place: str) -> None:
    done = subprocess.run(
        tiny_run().command("train", "--nodes", "2", "--rdzv", place),
        env={**os.environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert f"error: --rdzv {place}: " in done.stderr
    assert "expected HOST:PORT" in done.stderr
    assert "waiting at" not in done.stderr
