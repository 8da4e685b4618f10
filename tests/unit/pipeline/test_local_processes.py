"""In how many processes a training on a CPU runs where the command line doesn't say."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from mtkit.pipeline import local_processes as module
from mtkit.pipeline.hardware import Hardware
from mtkit.pipeline.local_processes import choose_processes
from mtkit.recipe import load_recipe
from mtkit.workspace import Workspace

GIB = 1 << 30


class Machine:
    """Stands for a machine: its cores, its memory, its other programs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.workspace = Workspace(root)
        self.cores = 2
        self.processors = 2
        self.free = 100 * GIB
        self.load = 0.0
        self.is_trained = False
        self.saved: list[str] = []
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        monkeypatch.setattr(module.sys, "platform", "linux")
        monkeypatch.setattr(module.torch.cuda, "is_available", lambda: False)
        monkeypatch.setattr(module, "count_threads", lambda: self.cores)
        monkeypatch.setattr(module, "count_cpus", lambda: self.processors)
        monkeypatch.setattr(module, "free_memory_bytes", lambda: self.free)
        monkeypatch.setattr(module, "measure_load", lambda: self.load)
        monkeypatch.setattr(module, "open_prepared", lambda *_: None)
        monkeypatch.setattr(module, "is_trained", lambda *_: self.is_trained)
        monkeypatch.setattr(module, "_estimate_memory", lambda *_: GIB)
        monkeypatch.setattr(module.CheckpointFolder, "list", lambda _: self.saved)

    def begun(self, **record: Any) -> None:
        self.saved = ["a checkpoint"]
        self.workspace.root.mkdir(exist_ok=True)
        self.workspace.manifest_file.write_text(json.dumps({"train": record}))

    def choose(self, *overrides: str, hardware: Hardware | None = None) -> tuple[int, str]:
        recipe = load_recipe("multi30k-en-de", overrides)
        chosen = choose_processes(recipe, self.workspace, hardware or Hardware())
        return chosen.num_processes, chosen.device


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path / "work")


def test_a_new_training_takes_a_process_a_core_and_says_why(machine: Machine, capsys) -> None:
    assert machine.choose() == (2, "cpu")
    assert capsys.readouterr().err == (
        "training in 2 processes of 1 thread: faster than threads when other programs are "
        "running (training.processes)\n"
    )


@pytest.mark.parametrize(
    ("cores", "batch_tokens", "expected"),
    [
        (1, 4_096, 1),
        (2, 1_500, 1),  # 750 tokens each would be too few
        (4, 4_096, 4),
        (16, 4_096, 4),
        (6, 4_096, 3),  # 4 would leave two cores idle
        (7, 4_096, 3),
        (12, 25_000, 12),
        (64, 25_000, 21),  # 24 at most; 3 threads each, one core idle
    ],
)
def test_each_process_has_enough_of_an_update(
    machine: Machine, cores: int, batch_tokens: int, expected: int
) -> None:
    machine.cores = machine.processors = cores
    count, _ = machine.choose(f"training.batch_tokens={batch_tokens}")
    assert count == expected


def test_a_small_update_stays_in_one_process_without_a_word(machine: Machine, capsys) -> None:
    assert machine.choose("training.batch_tokens=600") == (1, "auto")
    assert capsys.readouterr().err == ""


def test_processes_take_half_of_the_free_memory_at_most(machine: Machine, capsys) -> None:
    machine.cores = 4
    machine.free = 5 * GIB
    assert machine.choose("training.batch_tokens=4096") == (2, "cpu")
    assert "4 processes would take 4.0 GiB, more than half of the 5.0 GiB of free memory" in (
        capsys.readouterr().err
    )
    machine.free = GIB
    assert machine.choose("training.batch_tokens=4096") == (1, "auto")
    assert "training in 1 process of 4 threads: 4 processes would" in capsys.readouterr().err


def test_what_the_user_says_decides(machine: Machine, monkeypatch) -> None:
    asked = Hardware(num_processes=1, device="cpu")
    assert machine.choose("training.processes=2", hardware=asked) == (1, "cpu")
    assert machine.choose("training.processes=3") == (3, "cpu")
    assert machine.choose("training.processes=1") == (1, "auto")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert machine.choose() == (1, "auto")
    assert machine.choose("training.processes=2") == (2, "cpu")


def test_gpus_and_several_machines_are_left_as_they_are(machine: Machine, monkeypatch) -> None:
    gpus = Hardware(num_processes=4, device="cuda")
    assert machine.choose("training.processes=2", hardware=gpus) == (4, "cuda")
    machines = Hardware(num_nodes=2, rendezvous="here:29500")
    assert machine.choose(hardware=machines) == (1, "auto")
    monkeypatch.setattr(module.torch.cuda, "is_available", lambda: True)
    assert machine.choose("training.processes=2") == (1, "auto")


def test_a_finished_training_needs_no_processes(machine: Machine, capsys) -> None:
    machine.begun(processes=2, device="cpu")
    machine.is_trained = True
    assert machine.choose() == (1, "auto")
    assert capsys.readouterr().err == ""


def test_a_training_resumes_as_it_last_ran(machine: Machine, capsys) -> None:
    machine.begun(processes=1, device="cpu")
    assert machine.choose() == (1, "auto")
    assert capsys.readouterr().err == ""
    machine.begun(processes=2, device="cpu", machines=1)
    assert machine.choose() == (2, "cpu")
    assert "as in the last run" in capsys.readouterr().err
    machine.begun(processes=4, device="cpu", machines=2)
    assert machine.choose() == (2, "cpu")
    # Begun on GPUs: nothing to keep to.
    machine.begun(processes=8, device="cuda")
    assert machine.choose() == (2, "cpu")
    # Killed before its first checkpoint: new.
    machine.begun(processes=1, device="cpu")
    machine.saved = []
    assert machine.choose() == (2, "cpu")


def test_a_training_that_began_on_a_larger_machine_takes_this_one_s_cores(
    machine: Machine, capsys
) -> None:
    machine.begun(processes=8, device="cpu", machines=1)
    assert machine.choose() == (2, "cpu")
    assert "the last run had 8, but there are 2 cores" in capsys.readouterr().err


def test_threads_beside_other_programs_are_warned_of_on_resume(machine: Machine, capsys) -> None:
    machine.begun(processes=1, device="cpu")
    machine.load = 0.9
    assert machine.choose() == (1, "auto")
    assert "--processes 2 would be faster" in capsys.readouterr().err
    # Asked for by name: no advice.
    machine.choose(hardware=Hardware(num_processes=1, device="cpu"))
    machine.load = 0.2
    machine.choose()
    assert capsys.readouterr().err == ""


def test_without_a_loopback_network_there_is_one_process(
    machine: Machine, monkeypatch, capsys
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("no loopback")

    monkeypatch.setattr(socket, "create_server", refuse)
    assert machine.choose() == (1, "auto")
    assert "localhost" in capsys.readouterr().err


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_elsewhere_than_on_linux_there_is_one_process(
    machine: Machine, monkeypatch, platform: str
) -> None:
    monkeypatch.setattr(module.sys, "platform", platform)
    assert machine.choose() == (1, "auto")
