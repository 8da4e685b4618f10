"""Locks among real processes."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mtkit.locks import locked

COUNT = """
import sys
from pathlib import Path
from mtkit.locks import locked
path = Path(sys.argv[1])
for _ in range(100):
    with locked(path):
        path.write_text(str(int(path.read_text()) + 1))
"""
HOLD = """
import sys, time
from pathlib import Path
from mtkit.locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_processes_that_change_a_file_in_turn_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "count"
    path.write_text("0")
    processes = [start(COUNT, path) for _ in range(4)]
    for process in processes:
        process.communicate(timeout=120)
        assert process.returncode == 0
    assert path.read_text() == "400"
    assert list(tmp_path.iterdir()) == [path]


def test_a_lock_ends_with_the_process_that_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "model"
    holder = start(HOLD, path)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(BlockingIOError), locked(path, waits=False):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.communicate(timeout=60)
    with locked(path, waits=False) as is_held:
        assert is_held
    assert list(tmp_path.iterdir()) == []


def test_a_lock_is_shared_or_not(tmp_path: Path) -> None:
    path = tmp_path / "parts"
    with locked(path, is_shared=True), locked(path, waits=False, is_shared=True) as is_held:
        assert is_held
        with pytest.raises(BlockingIOError), locked(path, waits=False):
            pass
    with (
        locked(path, waits=False),
        pytest.raises(BlockingIOError),
        locked(path, waits=False, is_shared=True),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_another_path_is_another_lock(tmp_path: Path) -> None:
    with locked(tmp_path / "model"), locked(tmp_path / "export", waits=False) as is_held:
        assert is_held


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", flock)
    with locked(tmp_path / "model") as is_held:
        assert not is_held
    assert list(tmp_path.iterdir()) == []
