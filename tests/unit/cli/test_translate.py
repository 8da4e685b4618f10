"""`mtkit translate` in several processes, as it is typed."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mtkit.cli.app import app
from mtkit.inference.engines import parallel_engine

_LINES = "".join(f"The man number {number} sleeps.\n" for number in range(40))

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux")


def translate(*arguments: object) -> Any:
    return CliRunner().invoke(
        app, ["translate", *map(str, arguments)], prog_name="mtkit", input=_LINES
    )


@pytest.fixture
def trained(tiny_run, kept: Path):
    """A run with a model of one update."""
    run = tiny_run("training.max_steps=1")
    run.train_once(kept)
    return run


@pytest.fixture
def num_started(monkeypatch) -> list[int]:
    """How many processes were started, once for each."""
    started: list[int] = []
    start = parallel_engine._start

    def note(engine, others):
        started.append(len(others))
        return start(engine, others)

    monkeypatch.setattr(parallel_engine, "_start", note)
    return started


def test_processes_translate_as_one_does(trained, num_started) -> None:
    [checkpoint] = trained.workspace.checkpoints.iterdir()
    for options in (
        trained.options,
        ["--model", trained.workspace.model],
        ["--model", checkpoint],
    ):
        num_started.clear()
        alone = translate(*options, "-s", "inference.processes=1")
        assert (alone.exit_code, num_started) == (0, []), alone.stderr
        together = translate(*options, "-s", "inference.processes=2")
        assert (together.exit_code, num_started) == (0, [0, 1]), together.stderr
        assert together.stdout == alone.stdout
        assert alone.stdout.count("\n") == 40


def test_model_folders_may_lie_in_a_folder_named_checkpoints(trained, tmp_path: Path) -> None:
    expected = translate("--model", trained.workspace.model)
    for name in ("best", "step-00000001"):
        folder = tmp_path / "checkpoints" / name
        shutil.copytree(trained.workspace.model, folder)
        found = translate("--model", folder)
        assert (found.exit_code, found.stdout) == (0, expected.stdout), found.stderr
    together = translate("--model", folder, "--model", tmp_path / "checkpoints" / "best")
    assert together.exit_code == 0, together.stderr
    # A run is none, wherever it lies, but its model is named.
    run = tmp_path / "checkpoints" / "run"
    shutil.copytree(trained.workspace.root, run)
    refused = translate("--model", run)
    assert refused.exit_code == 1
    assert f"hint: did you mean {run / 'model'}?" in refused.stderr
