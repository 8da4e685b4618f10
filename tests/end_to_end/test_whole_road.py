"""From corpora to scores by the commands as they are typed, in a project's own folder."""

import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import sacrebleu

from .. import warm


@pytest.fixture
def project(tiny_run, tmp_path: Path) -> Path:
    """An empty folder with the tiny recipe as its `mtkit.toml`."""
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(tiny_run().options[1], folder / "mtkit.toml")
    return folder


def mtkit(folder: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*warm.command(), *arguments],
        cwd=folder,
        input=stdin,
        capture_output=True,
        check=False,
    )


def test_run_then_translate_then_score(project: Path, tmp_path: Path) -> None:
    done = mtkit(project, "run")
    assert done.returncode == 0, done.stderr.decode()
    scores = done.stdout
    said = done.stderr.decode()
    assert said.count("  hypothesis  ") == 5
    assert "mtkit translate" in said
    root = project / "runs" / "tiny"
    assert {path.name for path in root.iterdir()} == {
        "recipe.toml", "manifest.json", "data", "checkpoints", "metrics.jsonl",
        "curves.png", "model", "translations", "scores.json",
    }  # fmt: skip

    # Everything is up to date now.
    again = mtkit(project, "run")
    assert again.returncode == 0
    said = again.stderr.decode()
    assert "prepare: up to date" in said
    assert "train: already finished" in said
    assert "average: up to date" in said

    lines = b"The man sleeps.\n\nThe old man buys three red apples.\r\n  \nno newline at the end"
    translated = mtkit(project, "translate", stdin=lines)
    assert translated.returncode == 0
    output = translated.stdout.split(b"\n")
    assert len(output) == 6
    assert output[1] == output[3] == output[5] == b""

    # The model folder alone does the same elsewhere.
    shutil.copytree(root / "model", tmp_path / "copied")
    here = mtkit(project, "translate", stdin=lines)
    elsewhere = mtkit(tmp_path, "translate", "--model", "copied", stdin=lines)
    assert elsewhere.stdout == here.stdout

    scored = mtkit(project, "score")
    assert scored.stdout == scores
    table = [line.split("\t") for line in scores.decode().splitlines()]
    assert [row[1] for row in table[-3:]] == ["BLEU", "chrF2", "TER"]
    hypotheses = (root / "translations" / "held-out.hyp").read_text("utf-8").split("\n")[:-1]
    references = (root / "translations" / "held-out.ref").read_text("utf-8").split("\n")[:-1]
    assert len(hypotheses) == 10
    expected = sacrebleu.corpus_chrf(hypotheses, [references]).score
    assert float(table[-2][2]) == pytest.approx(expected, abs=0.005)


def test_ctrl_c_saves_and_the_same_command_goes_on(project: Path) -> None:
    assert mtkit(project, "prepare").returncode == 0
    command = [*warm.command(), "train", "--set", "training.max_steps=100000"]
    process = subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE)
    wait_until_training(project)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    said = stderr.decode()
    assert process.returncode == 75, said
    assert "stopped at step" in said
    assert "to resume: mtkit train --set training.max_steps=100000\n" in said
    assert "Traceback" not in said
    [checkpoint] = sorted((project / "runs" / "tiny" / "checkpoints").iterdir())[-1:]
    step = int(checkpoint.name.removeprefix("step-"))
    resumed = mtkit(project, "train", "--set", f"training.max_steps={step + 2}")
    assert resumed.returncode == 0
    assert f"resuming from step {step:,}" in resumed.stderr.decode()


def wait_until_training(project: Path) -> None:
    """Returns once a first update has been logged."""
    metrics = project / "runs" / "tiny" / "metrics.jsonl"
    give_up_at = time.monotonic() + 120
    while not metrics.exists() or not metrics.stat().st_size:
        assert time.monotonic() < give_up_at
        time.sleep(0.02)
