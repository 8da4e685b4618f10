"""A training by the command, with a fault injected into one of its processes."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

INJECTED = Path(__file__).with_name("injected")


@pytest.fixture
def train_with() -> Callable[..., subprocess.CompletedProcess[str]]:
    """A function that runs `mtkit train` to its end: `train_with(run, "nan:1:3", "--gpus", "2")`.

    The fault is one of `injected/sitecustomize.py`; an empty one is none.
    """

    def train(run, fault: str, *options: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(INJECTED), os.environ.get("PYTHONPATH", "")])
        return subprocess.run(
            run.command("train", *options),
            env={**os.environ, "PYTHONPATH": path, "MTKIT_TEST_FAULT": fault},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    return train
