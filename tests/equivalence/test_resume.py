"""Stopped and resumed = never stopped, to the last bit."""

import os
import signal
import subprocess
import time
from collections.abc import Callable

import pytest

from mtkit.data.prepare import prepare
from mtkit.training import loop
from mtkit.training.metrics import read_metrics

WITHOUT_END = "training.max_steps=100000"
"""However late a busy machine sees a checkpoint, training still goes on."""
_SAME_EVERY_TIME = ("step", "epoch", "loss", "nll", "learning_rate", "target_tokens")


def logged(run) -> list[tuple]:
    """Returns what was measured while training, but for the time it took."""
    lines = read_metrics(run.workspace.metrics_file)
    return [
        tuple(line[key] for key in _SAME_EVERY_TIME) for line in lines if line["kind"] == "train"
    ]


@pytest.fixture
def never_stopped(tiny_run: Callable):
    run = tiny_run(name="never stopped")
    assert run.train()
    return run


@pytest.mark.parametrize("stop_after", [1, 4, 5, 7])
def test_stopped_by_a_signal(tiny_run, never_stopped, stop_after, monkeypatch) -> None:
    run = tiny_run()
    monkeypatch.setattr(loop, "learning_rate", interrupting(loop.learning_rate, stop_after))
    assert not run.train()
    assert max(run.workspace.checkpoints.iterdir()).name == f"step-{stop_after:08d}"
    monkeypatch.undo()
    assert run.train()
    assert run.weights() == never_stopped.weights()
    # A log line's loss is a mean since the line before, and a stop begins a new mean.
    if stop_after % run.recipe.training.log_every == 0:
        assert logged(run) == logged(never_stopped)


def interrupting(original: Callable, step_of_signal: int) -> Callable:
    """Returns a `learning_rate` that sends this process Ctrl-C while it works on one step."""

    def rate(schedule, step, **sizes):
        if step == step_of_signal:
            os.kill(os.getpid(), signal.SIGINT)
        return original(schedule, step, **sizes)

    return rate


def test_stopped_and_resumed_at_every_step(tiny_run, never_stopped, monkeypatch) -> None:
    run = tiny_run()
    for step in range(1, run.recipe.training.max_steps):
        with monkeypatch.context() as patch:
            patch.setattr(loop, "learning_rate", interrupting(loop.learning_rate, step))
            assert not run.train()
    assert run.train()
    assert run.weights() == never_stopped.weights()


def test_trained_further_than_the_recipe_first_said(tiny_run, never_stopped) -> None:
    assert tiny_run("training.max_steps=5").train()
    run = tiny_run()
    assert run.train()
    assert run.weights() == never_stopped.weights()


def test_killed_at_a_moment_nobody_chose(tiny_run) -> None:
    run = tiny_run(WITHOUT_END)
    assert interrupt(run, signal.SIGKILL) == -signal.SIGKILL
    end = last_step(run) + 7
    # A draft that a kill left behind is no checkpoint.
    (run.workspace.checkpoints / f".step-{end:08d}.draft").mkdir()
    go_on = run.command("train", "--set", f"training.max_steps={end}")
    subprocess.run(go_on, check=True, stderr=subprocess.DEVNULL)
    never_stopped = tiny_run(f"training.max_steps={end}", name="never stopped")
    assert never_stopped.train()
    assert run.weights() == never_stopped.weights()
    assert (run.workspace.model / "model.safetensors").is_file()


@pytest.mark.slow
def test_two_processes_stopped_at_a_moment_nobody_chose(tiny_run) -> None:
    run = tiny_run(WITHOUT_END)
    assert interrupt(run, signal.SIGINT, "--processes", "2") == 75
    end = last_step(run) + 7
    never_stopped = tiny_run(name="never stopped")
    for each in (run, never_stopped):
        go_on = each.command("train", "--processes", "2", "--set", f"training.max_steps={end}")
        subprocess.run(go_on, check=True, stderr=subprocess.DEVNULL)
    assert run.weights() == never_stopped.weights()


def last_step(run) -> int:
    return int(max(run.workspace.checkpoints.glob("step-*")).name.removeprefix("step-"))


def interrupt(run, number: signal.Signals, *options: str) -> int:
    """Returns how `mtkit train` ends that is sent a signal once it has saved a checkpoint."""
    process = subprocess.Popen(run.command("train", *options), stderr=subprocess.DEVNULL)
    try:
        give_up_at = time.monotonic() + 120
        while not any(run.workspace.checkpoints.glob("step-*")):
            assert time.monotonic() < give_up_at, "no checkpoint came"
            time.sleep(0.005)
        process.send_signal(number)
        return process.wait(timeout=120)
    finally:
        process.kill()


def test_another_seed_is_another_run(tiny_run, never_stopped) -> None:
    run = tiny_run("seed=2", name="other")
    prepare(run.recipe, run.workspace)
    assert run.train()
    assert run.weights() != never_stopped.weights()


SAMPLING = "tokenizer.sampling={alpha=0.2}"


def test_stopped_while_segmentations_are_sampled(tiny_run, never_stopped, monkeypatch) -> None:
    sampled = tiny_run(SAMPLING, name="sampled")
    prepare(sampled.recipe, sampled.workspace)
    assert sampled.train()
    assert sampled.weights() != never_stopped.weights()
    run = tiny_run(SAMPLING)
    prepare(run.recipe, run.workspace)
    monkeypatch.setattr(loop, "learning_rate", interrupting(loop.learning_rate, 7))
    assert not run.train()
    monkeypatch.undo()
    assert run.train()
    assert run.weights() == sampled.weights()
    assert logged(run)[4:] == logged(sampled)[4:]
