"""A training on a CPU takes its processes by itself, and resumes in as many."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtkit.cli.app import app
from mtkit.cpus import count_cpus

from .. import warm

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or count_cpus() < 2, reason="needs two processors under Linux"
)

# Two processes' worth of an update: 1,024 tokens each.
TWO = "training.batch_tokens=2048"
# Nothing is translated, and nothing shown.
QUICK = ("training.validation.metric=loss", "training.validation.num_samples=0")

TRAIN = """\
import os, sys
from mtkit.cli.app import main
# Two, also where there are more.
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
sys.argv.insert(1, "train")
if torch := sys.modules.get("torch"):
    # As if it were imported here.
    torch.set_num_threads(2)
main()
"""


def train(python: str, options: list[str], *more: str) -> str:
    environment = {key: text for key, text in os.environ.items() if key != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [python, "-c", TRAIN, *options, "--set", TWO, *more],
        env=environment,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    return done.stderr


def processes(workspace: Path) -> int:
    return json.loads((workspace / "manifest.json").read_text("utf-8"))["train"]["processes"]


@pytest.mark.slow
def test_a_new_training_takes_two_and_another_resumes_as_it_last_ran(
    tiny_run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tiny_run(*QUICK)
    root = run.workspace.root
    said = train(sys.executable, run.options, "--set", "training.max_steps=2")
    assert "training in 2 processes of 1 thread: faster than threads" in said
    assert processes(root) == 2
    said = train(warm.python(), run.options, "--set", "training.max_steps=3")
    assert "training in 2 processes of 1 thread: as in the last run" in said
    assert "step 2: " in said
    assert processes(root) == 2
    # A flag decides, and is what the next session keeps to; one process is this one.
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    options = [*run.options, "--set", TWO, "--set", "training.max_steps=4", "--processes", "1"]
    done = CliRunner().invoke(app, ["train", *options])
    assert (done.exit_code, done.stdout) == (0, ""), done.stderr
    assert "training in" not in done.stderr
    assert processes(root) == 1
