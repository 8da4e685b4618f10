"""Standard input, output and error of a command, whatever it was started with.

Whoever starts a program can close any of the three (`<&-`, `>&-`, `2>&-`). The next file that is
opened gets the number that is free, and what was meant for the stream goes into that file.
"""

import io
import os
import stat
import sys
from typing import TYPE_CHECKING, BinaryIO, TextIO

from mtkit.errors import MtkitError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_NAMES = ("stdin", "stdout", "stderr")


class _ClosedStream(io.TextIOWrapper):
    """Stands for a stream that was closed: there is nothing in it, and what goes in is lost."""


class _UnfailingFile(io.FileIO):
    """A file that takes everything: what can't be written is lost, and nothing else with it."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            written: int | None = super().write(data)
        except OSError:
            written = None
        return memoryview(data).nbytes if written is None else written


def measure_stdin() -> int | None:
    """Returns the bytes that are left on stdin, where it is a file; None where nobody knows."""
    try:
        descriptor = sys.stdin.fileno()
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None
        return max(0, found.st_size - os.lseek(descriptor, 0, os.SEEK_CUR))
    except (OSError, ValueError, AttributeError):
        # Closed, or no stream of the system's.
        return None


def open_standard_streams() -> None:
    """Opens those of the three that are closed, in this process and in those that it starts.

    To be called before a process opens anything that stays open. An stderr that fails, now or
    later, is no reason to stop: what is said there is lost, and the work goes on. Characters that
    stdout's encoding lacks are written as escapes.

    Raises:
        OSError: There is no null device.
    """
    for descriptor, name in enumerate(_NAMES):
        if not _is_open(descriptor):
            # The lowest number that is free, which is this one.
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
        if getattr(sys, name) is None:
            mode = "wb" if descriptor else "rb"
            stream = os.fdopen(descriptor, mode, closefd=False)
            setattr(sys, name, _ClosedStream(stream, "utf-8", "backslashreplace"))
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors != "backslashreplace":
        sys.stdout.reconfigure(errors="backslashreplace")
    if not isinstance(sys.stderr, _ClosedStream):
        sys.stderr.flush()
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(_UnfailingFile(sys.stderr.fileno(), "wb", closefd=False)),
            encoding=sys.stderr.encoding,
            errors="backslashreplace",
            line_buffering=True,
        )


def take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Returns stdin and stdout, by which a child process talks to its parent.

    What libraries print goes to stderr from now on: it must not get among the results.

    Raises:
        OSError: There is no null device.
    """
    open_standard_streams()
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return sys.stdin.buffer, results


def disconnect(*descriptors: int) -> None:
    """Connects streams with the null device: nothing comes from them, and what goes in is lost."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(nothing, descriptor)
    # Where one was closed, this is it.
    if nothing not in descriptors:
        os.close(nothing)


def check_stdout(command: str) -> None:
    """Checks that what a command writes to stdout goes anywhere.

    Raises:
        MtkitError: It was closed when the process was started.
    """
    _check(sys.stdout, "stdout", f"{command} > output.txt")


def check_stdin(command: str) -> None:
    """Checks that there is something for a command to read from stdin.

    Raises:
        MtkitError: It was closed when the process was started.
    """
    _check(sys.stdin, "stdin", f"{command} < input.txt")


def discard_unwritten() -> None:
    """Drops what the interpreter would write to stdout at its end, where it would fail again.

    Once stdout has failed, what it still holds can't be written.
    """
    try:
        sys.stdout.flush()
    except OSError:
        disconnect(sys.stdout.fileno())


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _check(stream: TextIO | None, name: str, command: str) -> None:
    if stream is None or isinstance(stream, _ClosedStream):
        raise MtkitError(f"{name} is closed", f"use a file or a pipe: {command}")
