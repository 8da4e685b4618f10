"""Another's recipe, workspace or model folder, given to the command: nothing of it is run."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from .. import warm

# As the installed command starts: without the current folder among the places of modules.
COMMAND = [sys.executable, "-P", "-c", "from mtkit.cli.app import main; main()"]


def _run(
    *arguments: str, cwd: Path, command: Sequence[str] | None = None
) -> subprocess.CompletedProcess[str]:
    repository = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [repository, os.environ.get("PYTHONPATH", "")]))
    return subprocess.run(
        [*(command or warm.command()), *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def _fault(ended: subprocess.CompletedProcess[str]) -> str:
    """Returns the message of a command that ended as a user's fault does."""
    assert ended.returncode == 1, ended
    assert "Traceback" not in ended.stderr
    assert "error: " in ended.stderr, ended.stderr
    return ended.stderr


@pytest.mark.slow
def test_processes_of_a_training_take_no_modules_from_the_current_folder(
    tiny_run, tmp_path: Path
) -> None:
    run = tiny_run("training.max_steps=2", "training.checkpoint_every=2")
    here = tmp_path / "here"
    for name in ("mtkit/__init__.py", "mtkit/__main__.py", "numpy.py", "torch.py", "typer.py"):
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'mark')!r}).touch()\n")
    ended = _run("train", *run.options, "--processes", "2", cwd=here, command=COMMAND)
    assert ended.returncode == 0, ended.stderr
    assert not (tmp_path / "mark").exists()
    assert list(run.workspace.checkpoints.glob("step-*"))


@pytest.mark.slow
def test_a_workspace_of_a_strangers_takes_no_memory(tiny_run, tmp_path: Path) -> None:
    """Its recipe names a network that no machine holds; its checkpoint is sound."""
    run = tiny_run("training.max_steps=5")
    assert run.train()
    recipe = run.workspace.recipe_file
    text = recipe.read_text()
    checkpoint = max(run.workspace.checkpoints.glob("step-*"))
    place = ["--workspace", str(run.workspace.root)]

    recipe.write_text(text.replace("d_ff = 32", "d_ff = 1000000"))
    message = _fault(_run("translate", "--model", str(checkpoint), cwd=tmp_path))
    assert "model.safetensors: doesn't match the model" in message

    wide = text.replace("d_ff = 32", "d_ff = 1000000").replace("d_model = 16", "d_model = 100000")
    recipe.write_text(wide.replace("num_encoder_layers = 2", "num_encoder_layers = 1000"))
    message = _fault(_run("translate", "--model", str(checkpoint), cwd=tmp_path))
    assert "but this machine has" in message
    (run.workspace.checkpoints).rename(tmp_path / "put-by")
    assert "but this machine has" in _fault(_run("train", *place, cwd=tmp_path))

    recipe.write_text("x = " + "[" * 200_000)
    assert "nested too deeply" in _fault(_run("translate", *place, cwd=tmp_path))


@pytest.mark.slow
def test_hostile_models_end_a_command_with_a_line(tiny_run, tmp_path: Path) -> None:
    run = tiny_run("training.max_steps=5")
    assert run.train()
    folder = run.workspace.model
    plain = _run("translate", "--model", str(folder), cwd=tmp_path)
    assert (plain.returncode, plain.stdout) == (0, "")
    (folder / "README.md").unlink()
    (folder / "README.md").symlink_to("/etc/hostname")
    command = ["export", "--model", str(folder), "--output", str(tmp_path / "exported")]
    assert "README.md: a link out of its folder" in _fault(_run(*command, cwd=tmp_path))
    assert not (tmp_path / "exported").exists()
    (folder / "config.json").write_text("[" * 200_000)
    message = _fault(_run("translate", "--model", str(folder), cwd=tmp_path))
    assert "config.json: damaged: nested too deeply" in message
