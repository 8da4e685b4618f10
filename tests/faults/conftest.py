"""A training by the command, with a fault injected into one of its processes."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

INJECTED = Path(__file__).with_name("injected")


@pytest.fixture
def faulty() -> Callable[[str], dict[str, str]]:
    """A function that returns the environment of a command which a fault is to strike.

    The fault is one of `injected/sitecustomize.py`; an empty one is none.
    """

    def environment(fault: str) -> dict[str, str]:
        path = os.pathsep.join([str(INJECTED), os.environ.get("PYTHONPATH", "")])
        return {**os.environ, "PYTHONPATH": path, "MTKIT_TEST_FAULT": fault}

    return environment


@pytest.fixture
def train_with(faulty) -> Callable[..., subprocess.CompletedProcess[str]]:
    """A function that runs `mtkit train`: `train_with(run, "nan:1:3", "--processes", "2")`."""

    def train(run, fault: str, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            run.command("train", *options),
            env=faulty(fault),
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    return train
