"""How a child of mtkit starts, what its streams are, and how its end is told."""

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mtkit.child_processes import describe_end, prepare_start, watch_parent

CHATTY = """\
print("imported")
import os, pickle
def main(tasks, results):
    print("a library that prints")
    os.system("echo a program that prints")
    found = pickle.load(tasks), os.environ["COLOUR"], os.getsid(0) == os.getpid()
    pickle.dump(found, results)
    results.flush()
    pickle.load(tasks)
"""


@pytest.fixture
def chatty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "chatty.py").write_text(CHATTY)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "chatty"


def test_only_results_go_to_the_pipe_and_the_end_of_tasks_is_no_fault(chatty: str) -> None:
    command, options = prepare_start(chatty, COLOUR="blue")
    with subprocess.Popen(command, **options, stderr=subprocess.PIPE) as child:
        results, said = child.communicate(pickle.dumps("a task"))
    assert pickle.loads(results) == ("a task", "blue", True)
    lines = sorted(said.decode().splitlines())
    assert lines == ["a library that prints", "a program that prints", "imported"]
    assert child.returncode == 0


def test_a_child_of_a_program_without_stderr(chatty: str) -> None:
    command, options = prepare_start(chatty, COLOUR="blue")
    code = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen({command!r}, **{options!r})\n"
        f"results, _ = child.communicate({pickle.dumps('a task')!r})\n"
        "sys.stdout.buffer.write(results)\n"
    )
    shell = ["sh", "-c", 'exec "$0" "$@" 2>&-', sys.executable, "-c", code]
    done = subprocess.run(shell, stdout=subprocess.PIPE, check=True)
    assert pickle.loads(done.stdout) == ("a task", "blue", True)


def test_the_end_of_a_process_in_words() -> None:
    assert describe_end(3) == "exited with code 3"
    assert describe_end(-signal.SIGKILL) == "was killed by SIGKILL"


ORPHAN = """\
import time
from mtkit.child_processes import watch_parent
is_gone = watch_parent()
print(is_gone(), flush=True)
give_up_at = time.monotonic() + 60
while not is_gone() and time.monotonic() < give_up_at:
    time.sleep(0.05)
print(is_gone())
"""


def test_a_parent_that_was_killed_is_missed() -> None:
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {ORPHAN!r}])"
    with subprocess.Popen([sys.executable, "-c", start], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"False\n"
        parent.kill()
        assert parent.stdout.read() == b"True\n"


@pytest.mark.parametrize("closed", ["", "<&-", ">&-", "<&- >&- 2>&-"])
def test_streams_that_are_disconnected_give_and_take_nothing(closed: str) -> None:
    code = (
        "import os, sys\n"
        "from mtkit.standard_streams import disconnect\n"
        "disconnect(0, 1)\n"
        "os.write(1, b'lost')\n"
        "sys.exit(len(os.read(0, 9)))\n"
    )
    shell = ["sh", "-c", f'exec "$0" "$@" {closed}', sys.executable, "-c", code]
    done = subprocess.run(shell, input=b"unread", stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (0, b"")


def test_a_parent_that_is_gone_before_anyone_looks_is_noticed() -> None:
    assert not watch_parent()()
    assert not watch_parent(os.getppid())()
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    assert watch_parent(int(gone.stdout))()
