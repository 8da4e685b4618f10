"""Standard input, output and error of a command, however it was started.

A caller can close any of the three (`<&-`, `>&-`, `2>&-`). The next file that is opened gets the
free number, and output for the stream goes into that file.
"""

import io
import os
import sys
from typing import TYPE_CHECKING, BinaryIO, TextIO

from mtkit.errors import MtkitError
from mtkit.files import as_json_text

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_NAMES = ("stdin", "stdout", "stderr")


class _ClosedStream(io.TextIOWrapper):
    """Replaces a closed stream: it is empty, and what is written to it is lost."""


class _UnfailingFile(io.FileIO):
    """A file that accepts everything: what can't be written is lost, without an error."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            written: int | None = super().write(data)
        except OSError:
            written = None
        return memoryview(data).nbytes if written is None else written


def write_json(content: object) -> None:
    """Writes JSON to stdout, in ASCII if stdout's encoding isn't a Unicode one."""
    is_unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    sys.stdout.write(as_json_text(content, is_ascii=not is_unicode))


def open_standard_streams() -> None:
    """Opens the standard streams that are closed, in this process and in its children.

    Must be called before a process opens anything that stays open. A failing stderr, now or later,
    is no reason to stop: its output is lost, and the work continues. Characters outside stdout's
    encoding are written as escapes.
    """
    for descriptor, name in enumerate(_NAMES):
        if not _is_open(descriptor):
            # The lowest free number, which is this one.
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
    """Returns stdin and stdout, a child's pipes; output of libraries goes to stderr from now on."""
    open_standard_streams()
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return sys.stdin.buffer, results


def disconnect(*descriptors: int) -> None:
    """Connects streams with the null device: they are empty, and output to them is lost."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(nothing, descriptor)
    # If one was closed, this is it.
    if nothing not in descriptors:
        os.close(nothing)


def check_stdout(command: str) -> None:
    """Checks that a command's stdout wasn't closed at the start; raises MtkitError."""
    _check(sys.stdout, "stdout", f"{command} > output.txt")


def check_stdin(command: str) -> None:
    """Checks that a command's stdin wasn't closed at the start; raises MtkitError."""
    _check(sys.stdin, "stdin", f"{command} < input.txt")


def discard_unwritten() -> None:
    """Drops what the interpreter would write to stdout at exit, where it would fail again."""
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
