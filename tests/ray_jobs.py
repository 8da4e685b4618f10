"""Jobs for the workers of a cluster, which import this module."""

import os
import signal
import time
from functools import partial
from pathlib import Path


def build(folder: Path):
    return partial(work, folder)


def work(folder: Path, number: int) -> tuple[int, int]:
    """Returns the item squared, and the process; negative items kill their worker, or fail."""
    if number == -1:
        with (folder / "killed").open("a") as stream:
            stream.write("x")
        os.kill(os.getpid(), signal.SIGKILL)
    if number == -2:
        raise OSError(5, "the disk failed")
    time.sleep(0.05)
    return number * number, os.getppid()
