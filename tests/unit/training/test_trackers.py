"""TensorBoard, read back by its own reader; Weights & Biases, by a module that records calls."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils import tensorboard as torch_tensorboard

from mtkit.errors import MtkitError
from mtkit.recipe import Recipe, load_recipe
from mtkit.training.metrics_log import open_trackers
from mtkit.training.training_run import TrainingRun
from mtkit.workspace import Workspace


def load(name: str, *overrides: str) -> Recipe:
    return load_recipe("phrasebook-en-de", [f"training.trackers=['{name}']", *overrides])


def read_tensorboard(workspace: Workspace) -> EventAccumulator:
    events = EventAccumulator(str(workspace.tensorboard), size_guidance={"scalars": 0})
    events.Reload()
    return events


def curve(events: EventAccumulator, name: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in events.Scalars(name)]


def texts(events: EventAccumulator, name: str) -> list[tuple[int, str]]:
    return [
        (event.step, event.tensor_proto.string_val[0].decode())
        for event in events.Tensors(f"{name}/text_summary")
    ]


def test_no_tracker_unless_asked_for(tmp_path: Path) -> None:
    recipe = load_recipe("phrasebook-en-de")
    assert open_trackers(TrainingRun(recipe, Workspace(tmp_path), None), resumed_at=0) == []
    assert list(tmp_path.iterdir()) == []


def test_tensorboard_shows_numbers_events_and_the_recipe(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    [tracker] = open_trackers(TrainingRun(load("tensorboard"), workspace, None), resumed_at=0)
    tracker.log("train", {"step": 1, "loss": 2.5, "perplexity": None})
    tracker.log("train", {"step": 2, "loss": 1.5, "perplexity": 8})
    tracker.log("dev", {"step": 2, "bleu": 12.0})
    tracker.log("digest", {"step": 2, "digest": "0a1b"})
    tracker.log("event", {"step": 2, "text": "resumed"})
    tracker.close()
    events = read_tensorboard(workspace)
    assert sorted(events.Tags()["scalars"]) == [
        "dev/bleu", "train/loss", "train/perplexity"
    ]  # fmt: skip
    assert curve(events, "train/loss") == [(1, 2.5), (2, 1.5)]
    assert curve(events, "train/perplexity") == [(2, 8.0)]
    assert curve(events, "dev/bleu") == [(2, 12.0)]
    assert texts(events, "events") == [(2, "resumed")]
    [(step, recipe)] = texts(events, "recipe")
    assert step == 0
    assert '    name = "phrasebook-en-de"\n' in recipe


def test_tensorboard_forgets_what_is_done_again(tmp_path: Path) -> None:
    workspace, recipe = Workspace(tmp_path), load("tensorboard")
    [killed] = open_trackers(TrainingRun(recipe, workspace, None), resumed_at=0)
    for step in (1, 2, 3):
        killed.log("train", {"step": step, "loss": 1.0})
    killed.close()
    [resumed] = open_trackers(TrainingRun(recipe, workspace, None), resumed_at=2)
    for step in (3, 4, 5):
        resumed.log("train", {"step": step, "loss": 2.0})
    resumed.rewind(4)
    resumed.log("train", {"step": 5, "loss": 3.0})
    resumed.close()
    assert curve(read_tensorboard(workspace), "train/loss") == [
        (1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0), (5, 3.0)
    ]  # fmt: skip


def test_a_tracker_that_fails_is_switched_off(tmp_path: Path, monkeypatch, capsys) -> None:
    calls = []

    class FullDisk:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def add_text(self, *_: Any) -> None:
            pass

        def add_scalar(self, *args: Any) -> None:
            calls.append(args)
            raise OSError("No space left on device")

    monkeypatch.setattr(torch_tensorboard, "SummaryWriter", FullDisk)
    [tracker] = open_trackers(
        TrainingRun(load("tensorboard"), Workspace(tmp_path), None), resumed_at=0
    )
    capsys.readouterr()
    for step in (1, 2):
        tracker.log("train", {"step": step, "loss": 1.0})
    tracker.rewind(1)
    tracker.close()
    assert len(calls) == 1
    assert capsys.readouterr().err == (
        "warning: TensorBoard failed and was switched off: No space left on device; "
        "training continues\n"
    )


def test_a_folder_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.tensorboard.touch()
    with pytest.raises(MtkitError, match="can't write TensorBoard's files"):
        open_trackers(TrainingRun(load("tensorboard"), workspace, None), resumed_at=0)


@pytest.mark.parametrize(
    ("name", "module"), [("tensorboard", "torch.utils.tensorboard"), ("wandb", "wandb")]
)
def test_what_is_not_installed_is_told_with_its_extra(tmp_path, monkeypatch, name, module) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MtkitError, match=f"needs the package {name}") as raised:
        open_trackers(TrainingRun(load(name), Workspace(tmp_path), None), resumed_at=0)
    assert raised.value.hint == f"in the folder that holds mtkit's code: pip install '.[{name}]'"


class FakeWandb(ModuleType):
    """As much of wandb 0.31 as mtkit calls; it keeps what it is given."""

    class Error(Exception):
        """Root of wandb's errors."""

    def __init__(self, fault: Exception | None = None) -> None:
        super().__init__("wandb")
        self.fault = fault
        self.options: list[dict[str, Any]] = []
        self.metrics: list[tuple[str, dict[str, Any]]] = []
        self.rows: list[dict[str, Any]] = []
        self.num_finished = 0

    def Settings(self, **settings: Any) -> dict[str, Any]:  # noqa: N802
        return settings

    def init(self, **options: Any) -> SimpleNamespace:
        if self.fault is not None:
            raise self.fault
        self.options.append(options)
        return SimpleNamespace(
            id=options["id"] or f"run-{len(self.options)}",
            offline=False,
            url="https://example.org/run",
            define_metric=lambda name, **facts: self.metrics.append((name, facts)),
            log=self.log,
            finish=self.finish,
        )

    def log(self, row: dict[str, Any]) -> None:
        if self.fault is not None:
            raise self.fault
        self.rows.append(row)

    def finish(self) -> None:
        self.num_finished += 1


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> FakeWandb:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    return fake


def test_wandb_gets_the_recipe_and_every_number(tmp_path: Path, wandb, capsys) -> None:
    recipe = load("wandb", "training.validation.metric=loss")
    [tracker] = open_trackers(TrainingRun(recipe, Workspace(tmp_path), None), resumed_at=0)
    tracker.log("train", {"step": 1, "loss": 2.5, "perplexity": None})
    tracker.log("digest", {"step": 1, "digest": "0a1b"})
    tracker.log("event", {"step": 1, "text": "update skipped"})
    tracker.log("dev", {"step": 2, "bleu": 12.0})
    tracker.close()
    [options] = wandb.options
    assert options["project"] == "mtkit"
    assert options["name"] == "phrasebook-en-de"
    assert options["dir"] == str(tmp_path)
    assert options["config"]["training"]["validation"]["metric"] == "loss"
    assert wandb.metrics == [
        ("*", {"step_metric": "step"}),
        ("dev/loss", {"step_metric": "step", "summary": "min"}),
    ]
    assert wandb.rows == [
        {"train/loss": 2.5, "step": 1},
        {"event": "update skipped", "step": 1},
        {"dev/bleu": 12.0, "step": 2},
    ]
    assert wandb.num_finished == 1
    assert "https://example.org/run" in capsys.readouterr().err


def test_a_resumed_run_continues_its_curve_and_a_new_one_begins_another(tmp_path, wandb) -> None:
    workspace, recipe = Workspace(tmp_path), load("wandb")
    for resumed_at in (0, 100, 0, 100):
        open_trackers(TrainingRun(recipe, workspace, None), resumed_at=resumed_at)
    assert [options["id"] for options in wandb.options] == [None, "run-1", None, "run-3"]
    assert {options["resume"] for options in wandb.options} == {"allow"}


def test_wandb_that_does_not_start_is_told_at_once(tmp_path: Path, wandb) -> None:
    wandb.fault = wandb.Error("no API key")
    with pytest.raises(MtkitError, match="can't start Weights & Biases: no API key") as raised:
        open_trackers(TrainingRun(load("wandb"), Workspace(tmp_path), None), resumed_at=0)
    assert "WANDB_MODE=offline" in raised.value.hint


@pytest.mark.parametrize("kind", ["wandb's own", "a lost connection"])
def test_a_wandb_that_fails_later_ends_nothing(tmp_path: Path, wandb, capsys, kind: str) -> None:
    [tracker] = open_trackers(TrainingRun(load("wandb"), Workspace(tmp_path), None), resumed_at=0)
    capsys.readouterr()
    wandb.fault = wandb.Error("gone") if kind == "wandb's own" else ConnectionResetError("gone")
    tracker.log("train", {"step": 1, "loss": 1.0})
    tracker.log("train", {"step": 2, "loss": 1.0})
    tracker.close()
    assert capsys.readouterr().err.count("Weights & Biases failed and was switched off: gone") == 1
    assert wandb.num_finished == 0
