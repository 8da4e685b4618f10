"""Odd requests and damaged model folders, in a process of their own, which they may crash."""

import json
import math
import os
import subprocess
import sys

import pytest

from mtkit.engine.library import choose_library

from .compiling import FOLDER

pytestmark = pytest.mark.skipif(choose_library() is None, reason="installed without a C++ compiler")


def fuzz(seconds: float, *seeds: int) -> dict[str, int]:
    """Returns how many cases ended how; `seeds`, the first one and the number of cases."""
    command = [sys.executable, str(FOLDER / "fuzz.py"), str(seconds), *map(str, seeds)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "OPENBLAS_NUM_THREADS": "1",
    }
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    last_seed, _, rest = ended.stderr.rpartition("\r")[2].partition("\n")
    assert ended.returncode == 0, f"{ended.returncode} after {last_seed}\n{rest[-4000:]}"
    return json.loads(ended.stdout)


def test_odd_requests() -> None:
    counts = fuzz(math.inf, 0, 80)
    assert {"found", "scored", "IndexError", "MtkitError of a folder", "opened"} <= counts.keys()


@pytest.mark.patient
def test_odd_requests_for_an_hour() -> None:
    fuzz(float(os.environ.get("MTKIT_FUZZ_SECONDS", "3600")), 1_000_000)
