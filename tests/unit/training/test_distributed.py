"""Processes: what they share, where they run, and what is said when one fails."""

import subprocess
import sys

import pytest
import torch

from mtkit import __version__
from mtkit.errors import MtkitError
from mtkit.training import distributed
from mtkit.training.distributed import ProcessGroup, choose_device
from mtkit.training.launch import launch

CPU = torch.device("cpu")


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_what_is_shared_out_comes_back_in_order(count: int, monkeypatch) -> None:
    items = list(range(7))
    parts = [ProcessGroup(rank, count, CPU).shard(items) for rank in range(count)]
    assert sorted(item for part in parts for item in part) == items

    def gather_all(target: list, part: list) -> None:
        target[:] = parts

    monkeypatch.setattr(distributed.dist, "all_gather_object", gather_all)
    assert ProcessGroup(0, count, CPU).gather(parts[0]) == items


def test_a_machine_without_a_gpu_says_so(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert choose_device("auto") == CPU
    with pytest.raises(MtkitError, match="no GPU that torch can use"):
        choose_device("cuda")
    with pytest.raises(MtkitError, match="--gpus 8: this machine has no GPU") as caught:
        launch([], num_processes=8, needs_gpus=True)
    assert "--processes" in caught.value.hint


def test_too_few_gpus(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(MtkitError, match="--gpus 8: this machine has 2 GPUs") as caught:
        launch([], num_processes=8, needs_gpus=True)
    assert caught.value.hint == "use --gpus 2"


def test_two_processes_train_and_a_workers_fault_is_told_once(tiny_run) -> None:
    run = tiny_run("training.max_steps=2", "training.validation.metric=loss", "training.shard=true")
    command = run.command("train", "--processes", "2")
    trained = subprocess.run(command, capture_output=True, text=True, check=True)
    assert trained.stderr.count("2 x cpu") == 1
    assert trained.stderr.count("finished at step 2") == 1
    assert trained.stdout == ""
    # Both workers find that the run is another; it is one fault to the user.
    command = tiny_run("model.d_ff=64", "training.validation.metric=loss").command(
        "train", "--processes", "2"
    )
    failed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    lines = failed.stderr.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "hint"]
    assert "model.d_ff was 32, now 64" in lines[0]


@pytest.mark.patient
def test_one_workers_fault_is_told_without_what_the_others_make_of_it(tiny_run) -> None:
    run = tiny_run("training.max_steps=1")
    # The first process alone saves, and can't; the second waits for it.
    run.workspace.checkpoints.touch()
    failed = subprocess.run(
        run.command("train", "--processes", "2"), capture_output=True, text=True, check=False
    )
    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr, failed.stderr
    [error] = [line for line in failed.stderr.splitlines() if line.startswith("error:")]
    assert str(run.workspace.checkpoints) in error


def test_a_worker_that_dies_is_named(tmp_path, monkeypatch) -> None:
    commands = tmp_path / "mtkit" / "cli"
    commands.mkdir(parents=True)
    for folder in (commands, commands.parent):
        (folder / "__init__.py").touch()
    (commands / "app.py").write_text(
        "import os, signal\n"
        "def main():\n"
        "    if os.environ['RANK'] == '1': os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    # Workers look for modules where their launcher does.
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MtkitError, match=r"worker 1 \(process \d+ on .+\) died: SIGKILL"):
        launch([], num_processes=2, needs_gpus=False)


def test_the_launcher_leaves_signals_as_they_were(tmp_path) -> None:
    script = (
        "import signal\n"
        "from mtkit.training.launch import launch\n"
        "before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]\n"
        "launch(['--version'], num_processes=1, needs_gpus=False)\n"
        "assert before == [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"mtkit {__version__}\n")
