"""`mtkit` in a process of its own that needn't import anything: forked from one that has.

Importing torch and mtkit takes three seconds, and hundreds of tests run a command. `command()` is
for `python -m mtkit` where a test isn't about how a process starts: the same standard
streams, folder, environment, signals and exit code. What is killed by SIGKILL takes the command
with it. What reads the environment while torch is imported reads that of the tests.

A test starts warm_client.py; its request is served by this file's server, which forks. All
processes of pytest-xdist share one, and what takes long to load is loaded once. What a command
starts as `python -c` is forked too.
"""

import atexit
import contextlib
import gc
import importlib
import marshal
import os
import select
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TextIO

from .warm_client import FORWARDED, HEADER, read

IMPORTED = (
    "mtkit.cli.app", "mtkit.data.prepare", "mtkit.training.train", "mtkit.pipeline.run",
    "mtkit.pipeline.score", "mtkit.pipeline.plan", "mtkit.inference.translator",
    # What these import once they need it.
    "mtkit.evaluation.edits", "mtkit.inference.engines.open_torch_engine", "mtkit.pages",
    "mtkit.inference.streams.translate_stream", "mtkit.pipeline.align", "babel.dates",
    "matplotlib.figure", "numpy.ctypeslib", "pandas", "pyarrow.compute", "pyarrow.pandas_compat",
    "sacrebleu.tokenizers.tokenizer_13a", "typer._adapters", "typer._click.decorators",
)  # fmt: skip
Pair = tuple[str, str]
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


class _Command(NamedTuple):
    """One that runs: the client's connection, its process and what is readable once that ended."""

    connection: socket.socket
    process: int
    ended: int


def _serve(address: str, alive: int) -> None:
    """Forks a process for each request, as long as the tests run; waits for the last to end."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    if os.fork():
        os._exit(0)
    _load()
    commands: list[_Command] = []
    waiting: set[Any] = {listener, alive}
    while alive in waiting or commands:
        files = [file for command in commands for file in (command.connection, command.ended)]
        readable, _, _ = select.select([*waiting, *files], [], [])
        commands = [command for command in commands if _attend(command, readable)]
        waiting -= {alive} & set(readable)
        if listener in readable:
            connection, _ = listener.accept()
            try:
                request, fds = _receive(connection)
            except (EOFError, OSError):
                # Its client was killed before it had asked.
                connection.close()
                continue
            process = os.fork()
            if process == 0:
                for file in (listener, connection, *(command.connection for command in commands)):
                    file.close()
                for fd in (alive, *(command.ended for command in commands)):
                    os.close(fd)
                sys.executable = str(Path(address).with_name(_PYTHON))
                _become(request, fds)
            for fd in fds:
                os.close(fd)
            commands.append(_Command(connection, process, os.pidfd_open(process)))


def _load() -> None:
    """Loads what takes long; a fork then neither loads it nor looks through it for garbage."""
    for name in IMPORTED:
        importlib.import_module(name)
    from typer import main  # noqa: PLC0415

    from mtkit.checks.language import open_identifier  # noqa: PLC0415
    from mtkit.cli.app import app  # noqa: PLC0415
    from mtkit.data.cleaning.overlap import make_folding  # noqa: PLC0415
    from mtkit.data.phrasebook import generate_pairs  # noqa: PLC0415

    save_time()
    built = main.get_command(app)
    main.get_command = lambda _: built
    open_identifier()
    make_folding("nmt_nfkc")
    for split in ("train", "dev", "test"):
        list(generate_pairs(split, 300 if split == "train" else 40))
    gc.collect()
    gc.freeze()


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    header, fds, _, _ = socket.recv_fds(connection, HEADER, 3)
    return marshal.loads(read(connection, int.from_bytes(header))), fds


def _attend(command: _Command, readable: list[Any]) -> bool:
    """Hands on a command's signals, its client's end or its own; returns whether it still runs."""
    if command.ended in readable:
        _, status = os.waitpid(command.process, 0)
        with contextlib.suppress(OSError):
            code = os.waitstatus_to_exitcode(status)
            command.connection.sendall(code.to_bytes(4, signed=True))
        command.connection.close()
        os.close(command.ended)
        return False
    if command.connection in readable:
        for number in command.connection.recv(64) or [signal.SIGKILL]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(command.process, number)
    return True


def save_time(replace: Callable[..., None] = setattr) -> None:
    """Omits half of a tiny run's time: pictures, waiting for the disk, and what is the same again.

    Only a crash of the machine would show the second.
    """
    from mtkit import workspace  # noqa: PLC0415
    from mtkit.data.phrasebook import sentence_maker  # noqa: PLC0415
    from mtkit.data.preparation import tokenize_text  # noqa: PLC0415
    from mtkit.training.metrics_log import MetricsLog  # noqa: PLC0415

    replace(MetricsLog, "_draw", lambda log: log.picture.touch())
    replace(tokenize_text, "draw_lengths", lambda *_: "")
    replace(os, "fsync", lambda _: None)
    replace(workspace, "version", _find_version)
    replace(ssl, "create_default_context", _load_certificates)
    replace(sentence_maker, "_draw_pairs", _draw_once(sentence_maker._draw_pairs))


@cache
def _find_version(package: str) -> str:
    return version(package)


_load_certificates = cache(ssl.create_default_context)


@cache
def _draw_once(draw: Callable[[str, int, int], Iterator[Pair]]) -> Callable[..., Iterator[Pair]]:
    """Returns what draws pairs of the phrasebook once: few of them are the start of more."""
    from mtkit.data.phrasebook.sentence_maker import MAX_PAIRS  # noqa: PLC0415

    started: dict[tuple[str, int], tuple[list[Pair], Iterator[Pair]]] = {}
    lock = threading.Lock()

    def draw_pairs(split: str, count: int, seed: int) -> Iterator[Pair]:
        if (split, seed) not in started:
            started[split, seed] = [], draw(split, MAX_PAIRS[split], seed)
        drawn, more = started[split, seed]
        for number in range(count):
            with lock:
                if number == len(drawn):
                    drawn.append(next(more))
            yield drawn[number]

    return draw_pairs


def _become(request: dict[str, Any], fds: list[int]) -> NoReturn:
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


def _open_stream(
    number: int, request: dict[str, Any], mode: str = "r", **settings: Any
) -> TextIO | None:
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
