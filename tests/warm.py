"""`mtkit` in a process of its own that needn't import anything: forked from one that has.

Importing torch and mtkit takes three seconds, and hundreds of tests run a command. `COMMAND` takes
the place of `python -m mtkit` where a test isn't about how a process starts: the same standard
streams, folder, environment, signals and exit code. What is killed by SIGKILL takes the command
with it. What reads the environment while torch is imported reads that of the tests.

A test starts warm_client.py; its request is served by this file's server, which forks. All
processes of pytest-xdist share one. What a command starts as `python -c` is forked too.
"""

import atexit
import contextlib
import importlib
import marshal
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn, TextIO

from .warm_client import FORWARDED, HEADER, read

IMPORTED = (
    "mtkit.cli.app", "mtkit.data.prepare", "mtkit.training.train", "mtkit.pipeline.run",
    "mtkit.pipeline.score", "mtkit.pipeline.plan", "mtkit.inference.translator",
    # What these import once they need it.
    "mtkit.evaluation.edits", "mtkit.inference.engines.open_torch_engine", "mtkit.pages",
    "matplotlib.figure", "pandas", "pyarrow.compute", "sacrebleu",
)  # fmt: skip
_ADDRESS = "MTKIT_TEST_WARM"
_CLIENT = str(Path(__file__).with_name("warm_client.py"))
_PYTHON = "python"
"""Beside the server's socket, what commands take for Python; see warm_client.py."""


def command() -> list[str]:
    """Returns what to type for `mtkit`; starts the server where there is none."""
    if _ADDRESS not in os.environ:
        start()
    return [sys.executable, "-I", "-S", _CLIENT, os.environ[_ADDRESS]]


def python() -> str:
    """Returns the Python for mtkit's child processes: forks if it is called with `-c`."""
    command()
    return str(Path(os.environ[_ADDRESS]).with_name(_PYTHON))


def start() -> None:
    """Starts the server, which is no child of this process, and ends with it.

    Processes that this one starts later use the same one. It serves once it has imported all.
    """
    folder = tempfile.TemporaryDirectory(prefix="mtkit-warm-")
    atexit.register(folder.cleanup)
    address = str(Path(folder.name) / "socket")
    python = Path(folder.name) / _PYTHON
    client = shlex.join([sys.executable, "-I", "-S", _CLIENT, "--python", address])
    python.write_text(f'#!/bin/sh\nexec {client} "$@"\n')
    python.chmod(0o755)
    # Nobody writes into it: its end is this process's.
    alive, _ = os.pipe()
    paths = str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH")
    subprocess.run(
        [sys.executable, "-m", __name__, address, str(alive)],
        pass_fds=[alive],
        stdin=subprocess.DEVNULL,
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        start_new_session=True,
        check=True,
    )
    os.close(alive)
    os.environ[_ADDRESS] = address


def _serve(address: str, alive: int) -> None:
    """Forks a watcher for each request, which forks the command, as long as the tests run."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        if os.fork():
            os._exit(0)
        for name in IMPORTED:
            importlib.import_module(name)
        save_time()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            if alive in select.select([listener, alive], [], [])[0]:
                os._exit(0)
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                os.close(alive)
                break
            connection.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _run(connection, str(Path(address).with_name(_PYTHON)))


def save_time(replace: Callable[..., None] = setattr) -> None:
    """Omits pictures, waiting for the disk, and looking up versions: half of a tiny run's time.

    Only a crash of the machine would show the second.
    """
    from mtkit import workspace  # noqa: PLC0415
    from mtkit.data.preparation import tokenize_text  # noqa: PLC0415
    from mtkit.training.metrics_log import MetricsLog  # noqa: PLC0415

    replace(MetricsLog, "_draw", lambda log: log.picture.touch())
    replace(tokenize_text, "draw_lengths", lambda *_: "")
    replace(os, "fsync", lambda _: None)
    replace(workspace, "version", _find_version)


@cache
def _find_version(package: str) -> str:
    return version(package)


def _run(connection: socket.socket, python: str) -> None:
    """Runs a request's command in a fork, while this process hands on signals and its end."""
    header, fds, _, _ = socket.recv_fds(connection, HEADER, 3)
    request = marshal.loads(read(connection, int.from_bytes(header)))
    child = os.fork()
    if child == 0:
        connection.close()
        sys.executable = python
        _become(request, fds)
        return
    for fd in fds:
        os.close(fd)
    ended = os.pidfd_open(child)
    while True:
        readable, _, _ = select.select([connection, ended], [], [])
        if ended in readable:
            break
        signals = connection.recv(64)
        for number in signals or [signal.SIGKILL]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)
        if not signals:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(OSError):
        connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, signed=True))
    os._exit(0)


def _become(request: dict, fds: list[int]) -> None:
    """Gives this process all that the client has; then the program runs in it."""
    os.setsid()
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number in FORWARDED:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["-c", *request["arguments"]]
    added = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = [str(Path(__file__).parent.parent), *added, *sys.path[1:]]
    # As Python does at its start: a test's own, if PYTHONPATH has one.
    sys.modules.pop("sitecustomize", None)
    with contextlib.suppress(ImportError):
        importlib.import_module("sitecustomize")
    sys.stdin = _open_stream(0, request)
    sys.stdout = _open_stream(1, request, "w")
    sys.stderr = _open_stream(2, request, "w", errors="backslashreplace")

    code = 0
    try:
        exec(request["code"], {"__name__": "__main__"})
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 (as Python does at the end of a program)
        traceback.print_exc()
        code = 1
    _end(code)


def _open_stream(number: int, request: dict, mode: str = "r", **settings: Any) -> TextIO | None:
    """Returns a standard stream, as Python does: None if the client's is closed."""
    if number in request["closed"]:
        os.close(number)
        return None
    return os.fdopen(number, mode, closefd=False, **settings)


def _end(code: int) -> NoReturn:
    """Ends the process without tearing down all that it shares with the server."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]))
