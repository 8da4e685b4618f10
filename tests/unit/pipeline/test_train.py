"""Whether training happens here or in workers, and with which exit code it ends."""

import sys
from pathlib import Path
from typing import Any

import pytest

from mtkit.errors import MtkitError
from mtkit.pipeline import train as train_module
from mtkit.pipeline.hardware import Hardware
from mtkit.pipeline.train import STOPPED, train
from mtkit.recipe import Recipe, load_recipe
from mtkit.workspace import Workspace


class Rooms:
    """Stands for mtkit.training and mtkit.data: writes down what is asked of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.devices: list[str] = []
        self.launches: list[tuple[list[str], dict[str, Any]]] = []
        self.is_finished = True
        monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
        # Without it, one process becomes several where a machine has the cores.
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        monkeypatch.setattr(train_module, "train_here", self._train)
        monkeypatch.setattr(train_module, "launch", self._launch)
        monkeypatch.setattr(train_module, "open_prepared", lambda *_: None)
        monkeypatch.setattr(train_module, "check_gpus", self._check_gpus)
        monkeypatch.setattr(train_module, "is_trained", lambda *_: self.is_finished)

    def _train(self, _recipe: Recipe, _workspace: Workspace, *, device: str, **_: Any) -> bool:
        self.devices.append(device)
        return self.is_finished

    def _check_gpus(self, num_wanted: int) -> None:
        if num_wanted > 4:
            raise MtkitError("too few")

    def _launch(self, arguments: list[str], **how: Any) -> None:
        self.launches.append((arguments, how))


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch) -> Rooms:
    return Rooms(monkeypatch)


def train_with(hardware: Hardware) -> int:
    run: dict[str, Any] = {"hardware": hardware, "options": ["--set", "seed=2"]}
    return train(load_recipe("phrasebook-en-de"), Workspace(Path("nowhere")), **run)


def test_one_process_trains_here(rooms: Rooms) -> None:
    assert train_with(Hardware()) == 0
    assert train_with(Hardware(num_processes=1, device="cuda")) == 0
    assert (rooms.devices, rooms.launches) == (["auto", "cuda"], [])


def test_several_are_launched_with_the_same_options(rooms: Rooms) -> None:
    assert train_with(Hardware(num_processes=4, device="cuda")) == 0
    assert train_with(Hardware(num_processes=2, device="cpu")) == 0
    assert rooms.devices == []
    alone = {"num_nodes": 1, "rendezvous": "", "max_restarts": 0}
    assert rooms.launches == [
        (
            ["train", "--set", "seed=2", "--gpus", "4"],
            {"num_processes": 4, "needs_gpus": True, **alone},
        ),
        (
            ["train", "--set", "seed=2", "--processes", "2"],
            {"num_processes": 2, "needs_gpus": False, **alone},
        ),
    ]


def test_several_machines_and_restarts_need_a_launcher(rooms: Rooms) -> None:
    assert train_with(Hardware(num_nodes=2, rendezvous="here:29500")) == 0
    assert train_with(Hardware(max_restarts=3)) == 0
    machines, restarts = rooms.launches
    assert machines[0][3:] == ["--nodes", "2", "--rdzv", "here:29500"]
    assert (machines[1]["num_nodes"], machines[1]["rendezvous"]) == (2, "here:29500")
    assert restarts[0][3:] == ["--max-restarts", "3"]
    assert (restarts[1]["num_processes"], restarts[1]["max_restarts"]) == (1, 3)


def test_too_few_gpus_are_told_before_anything_else(rooms: Rooms) -> None:
    with pytest.raises(MtkitError, match="too few"):
        train_with(Hardware(num_processes=8, device="cuda"))
    assert (rooms.devices, rooms.launches) == ([], [])


def test_a_worker_trains_and_launches_nothing(
    rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    # A worker ends its process at once, which would be this one.
    monkeypatch.setattr("mtkit.training.launch._end_at_once", sys.exit)
    rooms.is_finished = False
    with pytest.raises(SystemExit) as end:
        train_with(Hardware(num_processes=4, device="cuda"))
    # torchrun takes any other code for a crash, and a stop that was asked for is none.
    assert end.value.code == 0
    assert (rooms.devices, rooms.launches) == (["cuda"], [])


def test_a_stop_has_its_own_exit_code_and_says_what_goes_on(
    rooms: Rooms, capsys: pytest.CaptureFixture[str]
) -> None:
    rooms.is_finished = False
    assert train_with(Hardware()) == STOPPED == 75
    assert capsys.readouterr().err == "to resume: mtkit train --set seed=2\n"
    assert train_with(Hardware(num_processes=2, device="cpu")) == STOPPED
    assert capsys.readouterr().err == "to resume: mtkit train --set seed=2 --processes 2\n"


def test_missing_data_are_told_before_workers_start(
    rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    with pytest.raises(MtkitError, match="no prepared data"):
        train_with(Hardware(num_processes=2, device="cpu"))
    assert rooms.launches == []
