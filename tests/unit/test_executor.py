"""Results come from any number of workers; none outlives its parent, and a death is told."""

import itertools
import os
import pickle
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
from mtkit.executor import LocalExecutor, WorkerNeeds


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
    found = LocalExecutor(num_workers).run(partial(scale, 3), range(num_items))
    assert list(found) == [3 * number for number in range(num_items)]


@pytest.mark.parametrize("num_workers", [1, 2, 3])
@pytest.mark.parametrize("num_items", [0, 1, 2, 12])
def test_results_as_completed_are_the_same(num_workers: int, num_items: int) -> None:
    found = LocalExecutor(num_workers).run(partial(scale, 3), range(num_items), ordered=False)
    assert sorted(found) == [3 * number for number in range(num_items)]


def wait_at_zero(folder: Path) -> Callable[[int], int]:
    return partial(_wait_at_zero, folder / "seven is done")


def _wait_at_zero(done: Path, number: int) -> int:
    while number == 0 and not done.exists():
        time.sleep(0.01)
    if number == 7:
        done.touch()
    return number


def test_a_result_as_completed_waits_for_no_other(tmp_path: Path) -> None:
    found = list(LocalExecutor(2).run(partial(wait_at_zero, tmp_path), range(8), ordered=False))
    assert found[:6] == [1, 2, 3, 4, 5, 6]
    assert sorted(found[6:]) == [0, 7]


@pytest.mark.parametrize("num_workers", [1, 2])
def test_faults_come_through_with_their_hints(num_workers: int) -> None:
    found = LocalExecutor(num_workers).run(partial(scale, 1), range(20))
    with pytest.raises(MtkitError, match="thirteen") as caught:
        list(found)
    assert caught.value.hint == "skip it"


@pytest.mark.parametrize("ordered", [True, False])
def test_a_worker_that_is_killed_is_told(ordered: bool) -> None:
    before = set(psutil.Process().children(recursive=True))
    told = "a worker process was killed by SIGKILL while it was working"
    with pytest.raises(MtkitError, match=told) as caught:
        list(LocalExecutor(2).run(partial(die, None), range(20), ordered=ordered))
    assert "--workers 1" in caught.value.hint
    assert set(psutil.Process().children(recursive=True)) <= before


def leave() -> Callable[[int], int]:
    return _leave


def _leave(number: int) -> int:
    if number == 5:
        os._exit(3)
    return number


def test_a_worker_that_exits_is_told_with_its_code_and_a_hint() -> None:
    results = LocalExecutor(2, hint="look at it").run(leave, range(20))
    with pytest.raises(MtkitError, match="exited with code 3") as caught:
        list(results)
    assert caught.value.hint == "look at it"


def test_a_job_that_cant_be_sent_leaves_no_process() -> None:
    before = set(psutil.Process().children(recursive=True))
    with pytest.raises((pickle.PicklingError, AttributeError)):
        list(LocalExecutor(2).run(lambda: abs, range(20)))
    assert set(psutil.Process().children(recursive=True)) <= before


def test_stopping_early_leaves_no_process() -> None:
    before = set(psutil.Process().children(recursive=True))
    results = LocalExecutor(2).run(partial(scale, 1), range(10))
    assert next(results) == 0
    assert len(set(psutil.Process().children(recursive=True)) - before) == 2
    results.close()
    assert set(psutil.Process().children(recursive=True)) <= before


@pytest.mark.parametrize("ordered", [True, False])
def test_only_a_few_items_are_read_ahead(ordered: bool) -> None:
    read = []

    def count():
        for number in itertools.count(14):
            read.append(number)
            yield number

    results = LocalExecutor(2).run(partial(scale, 1), count(), ordered=ordered)
    next(results)
    assert len(read) < 10
    for _ in range(50):
        next(results)
    assert len(read) < 60
    results.close()


SCRIPT = """\
import sys
sys.path.insert(0, {tests!r})
import slow_work
from mtkit.executor import LocalExecutor, WorkerNeeds
for number in LocalExecutor(2).run(slow_work.build, range(1000)):
    print(number, flush=True)
"""
SLOW_WORK = """\
import time
def build():
    return wait
def wait(item):
    if item == 2:
        {busy}
    return item
"""


def start(folder: Path, busy: str) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """Returns a script that has results already, and its workers; the third item takes long."""
    (folder / "slow_work.py").write_text(SLOW_WORK.format(busy=busy))
    # No `if __name__ == "__main__"`: a worker must not run its caller's script.
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(tests=str(folder))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A terminal's Ctrl-C goes to the whole group.
        start_new_session=True,
    )
    assert parent.stdout is not None
    assert [parent.stdout.readline() for _ in range(2)] == ["0\n", "1\n"]
    workers = psutil.Process(parent.pid).children()
    assert len(workers) == 2
    return parent, workers


@pytest.mark.parametrize("busy", ["time.sleep(60)", "[number for number in range(10**10)]"])
def test_workers_end_when_their_parent_is_killed(tmp_path: Path, busy: str) -> None:
    parent, workers = start(tmp_path, busy)
    os.killpg(parent.pid, signal.SIGKILL)
    # Nobody else has its streams.
    parent.communicate(timeout=30)
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert alive == []


@pytest.mark.skipif(os.name == "nt", reason="Windows has no process groups to interrupt")
def test_an_interrupt_ends_workers_and_is_told_once(tmp_path: Path) -> None:
    parent, workers = start(tmp_path, "time.sleep(60)")
    os.killpg(parent.pid, signal.SIGINT)
    _, errors = parent.communicate(timeout=30)
    assert parent.returncode == -signal.SIGINT
    assert errors.count("Traceback") == 1, errors
    assert errors.endswith("KeyboardInterrupt\n")
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert alive == []


def test_workers_with_models_have_memory_or_a_gpu_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mtkit.executor.free_memory_bytes", lambda: 10 << 30)
    executor = LocalExecutor(8)
    assert executor.fit(WorkerNeeds()).num_workers == 8
    assert executor.fit(WorkerNeeds(num_bytes=3 << 30)).num_workers == 3
    assert executor.fit(WorkerNeeds(num_bytes=30 << 30)).num_workers == 1
    assert executor.fit(WorkerNeeds(num_bytes=1, on_gpu=True)).num_workers == 1
    assert executor.fit(WorkerNeeds(is_remote=True)).num_workers == 1
    monkeypatch.setattr("mtkit.executor.free_memory_bytes", lambda: None)
    assert executor.fit(WorkerNeeds(num_bytes=3 << 30)).num_workers == 8
