"""Child processes of mtkit: how they start, how they end with their parent, and what ended them.

They are plain children that talk to their parent through pipes. They never run the caller's main
module, so that functions of mtkit that use them can be called from any script.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import TypedDict

from mtkit.standard_streams import take_pipes

_RUN = "import sys; sys.path[:] = {path!r}; from mtkit.child_processes import run; run({module!r})"
_LOOK_SECONDS = 1.0
_STACK_BYTES = 256 << 10
"""Of the thread that watches the parent: it counts where memory is limited."""


class StartOptions(TypedDict):
    """How a child starts, for `subprocess.Popen` and asyncio's `create_subprocess_exec`."""

    stdin: int
    stdout: int
    env: dict[str, str]
    start_new_session: bool


def prepare_start(module: str, **environment: str) -> tuple[list[str], StartOptions]:
    """Returns the command and the options that start a child process with pipes.

    Args:
        module: Its `main` is called with the pipe that tasks come from and the one that results go
            to.
        environment: Variables that the child has beside this process's own.
    """
    return [sys.executable, "-c", _RUN.format(path=sys.path, module=module)], {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "env": {**os.environ, **environment},
        # Out of reach of Ctrl-C: the parent decides what becomes of it.
        "start_new_session": True,
    }


def run(module: str) -> None:
    """Runs a module's `main` until the parent is gone: all that a child process does."""
    end_with_parent()
    tasks, results = take_pipes()
    try:
        import_module(module).main(tasks, results)
    except (EOFError, BrokenPipeError, pickle.UnpicklingError):
        # The parent has what it wanted, or is gone.
        os._exit(0)


def watch_parent() -> Callable[[], bool]:
    """Returns a check whether the process that is now this one's parent is gone."""
    parent = os.getppid()
    return lambda: os.getppid() != parent


def end_with_parent() -> None:
    """Ends this process within a second of its parent's end, whatever it is working on.

    A thread looks, which has to wait while a library keeps Python's interpreter lock.
    """
    is_gone = watch_parent()

    def look() -> None:
        while not is_gone():
            time.sleep(_LOOK_SECONDS)
        os._exit(1)

    before = threading.stack_size(_STACK_BYTES)
    threading.Thread(target=look, name="watch on the parent", daemon=True).start()
    threading.stack_size(before)


def describe_end(code: int) -> str:
    """Returns how a process ended, in words that follow its name.

    Args:
        code: Its exit code; where a signal killed it, the signal's number, negative.
    """
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"exited with code {code}"
