"""Results come in order from any number of processes; a process that dies is told."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import pytest

from mtkit.errors import MtkitError
from mtkit.worker_processes import map_in_order


def scale(factor: int) -> Callable[[int], int]:
    return partial(_scale, factor)


def _scale(factor: int, number: int) -> int:
    if number == 13:
        raise MtkitError("thirteen", "skip it")
    # The first takes longest, so that later ones are done before it.
    time.sleep(0.05 if number == 0 else 0.0)
    print("a library that prints")
    return factor * number


def die(_: None) -> Callable[[int], int]:
    return partial(_die, os.getpid())


def _die(_: int, number: int) -> int:
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("num_workers", [1, 2, 3])
@pytest.mark.parametrize("num_items", [0, 1, 2, 12])
def test_order_is_kept(num_workers: int, num_items: int) -> None:
    found = map_in_order(partial(scale, 3), range(num_items), num_workers=num_workers)
    assert list(found) == [3 * number for number in range(num_items)]


@pytest.mark.parametrize("num_workers", [1, 2])
def test_faults_come_through_with_their_hints(num_workers: int) -> None:
    found = map_in_order(partial(scale, 1), range(20), num_workers=num_workers)
    with pytest.raises(MtkitError, match="thirteen") as caught:
        list(found)
    assert caught.value.hint == "skip it"


def test_a_worker_that_is_killed_is_told() -> None:
    with pytest.raises(MtkitError, match="killed by SIGKILL") as caught:
        list(map_in_order(partial(die, None), range(20), num_workers=2))
    assert "--workers 1" in caught.value.hint


def test_stopping_early_leaves_no_process() -> None:
    before = set(psutil.Process().children(recursive=True))
    results = map_in_order(partial(scale, 1), range(10), num_workers=2)
    assert next(results) == 0
    assert len(set(psutil.Process().children(recursive=True)) - before) == 2
    results.close()
    assert set(psutil.Process().children(recursive=True)) <= before


def test_only_a_few_items_are_read_ahead() -> None:
    read = []

    def count():
        for number in range(14, 100):
            read.append(number)
            yield number

    results = map_in_order(partial(scale, 1), count(), num_workers=2)
    next(results)
    assert len(read) < 10
    results.close()


SCRIPT = """\
from functools import partial
import sys, time
sys.path.insert(0, {tests!r})
import slow_work
from mtkit.worker_processes import map_in_order
print("ready", flush=True)
list(map_in_order(slow_work.build, range(100), num_workers=2))
"""


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    (tmp_path / "slow_work.py").write_text(
        "import time\ndef build():\n    return wait\ndef wait(item):\n    time.sleep(0.2)\n"
    )
    # No `if __name__ == "__main__"`: a worker must not run its caller's script.
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(tests=str(tmp_path))],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    workers: list[psutil.Process] = []
    deadline = time.monotonic() + 60
    while len(workers) < 2 and time.monotonic() < deadline:
        workers = psutil.Process(parent.pid).children()
    assert len(workers) == 2
    parent.kill()
    parent.wait()
    parent.stdout.close()
    gone, alive = psutil.wait_procs(workers, timeout=30)
    assert (len(gone), alive) == (2, [])
