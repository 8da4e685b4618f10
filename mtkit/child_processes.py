"""Child processes of mtkit: how they start, how they end with their parent, and what ended them.

They are plain children that communicate with their parent through pipes. They never run the
caller's main module, so that any script can call functions of mtkit that use them.
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
_POLL_SECONDS = 1.0
_STACK_BYTES = 256 << 10
"""Stack of the parent watchdog: the default of 8 MiB would count against a memory limit."""


class StartOptions(TypedDict):
    """How a child starts, for `subprocess.Popen` and asyncio's `create_subprocess_exec`."""

    stdin: int
    stdout: int
    env: dict[str, str]
    start_new_session: bool


def prepare_start(module: str, **environment: str) -> tuple[list[str], StartOptions]:
    """Returns the command and options that start a child process with pipes.

    The module's `main` is called with a pipe for items and one for results. `environment` is
    added to this process's own.
    """
    return [sys.executable, "-c", _RUN.format(path=sys.path, module=module)], {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "env": {**os.environ, **environment},
        # Out of reach of Ctrl-C: the parent decides when it ends.
        "start_new_session": True,
    }


def run(module: str) -> None:
    """Runs a module's `main` until the parent is gone: the entry point of a child process."""
    end_with_parent()
    tasks, results = take_pipes()
    try:
        import_module(module).main(tasks, results)
    except (EOFError, BrokenPipeError, pickle.UnpicklingError):
        # The parent is finished or gone.
        os._exit(0)


def watch_parent(ancestor: int | None = None) -> Callable[[], bool]:
    """Returns a function that checks whether the parent, or another ancestor, is gone."""
    parent = os.getppid()

    def is_gone() -> bool:
        return os.getppid() != parent or (ancestor is not None and not _is_running(ancestor))

    return is_gone


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def end_with_parent() -> None:
    """Ends this process within a second of its parent's death, or once the GIL is released."""
    is_gone = watch_parent()

    def poll() -> None:
        while not is_gone():
            time.sleep(_POLL_SECONDS)
        os._exit(1)

    before = threading.stack_size(_STACK_BYTES)
    threading.Thread(target=poll, name="watch on the parent", daemon=True).start()
    threading.stack_size(before)


def describe_end(code: int) -> str:
    """Returns how a process ended; a negative exit code is the signal that killed it."""
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"exited with code {code}"
