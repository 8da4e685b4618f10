"""Messages between the server and its own processes: pickled, with a length prefix."""

import asyncio
import pickle
import re
import resource
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from mtkit.child_processes import prepare_start

_HEAD = struct.Struct(">Q")
_STATUS_FILE = "/proc/{}/statm"
_PAGE_BYTES = 4_096
_SECRET = re.compile("KEY|TOKEN|SECRET|PASSW|AUTH|CREDENTIAL", re.IGNORECASE)
"""In names of environment variables."""


class SupportsWrite(Protocol):
    """A pipe's end, or an event loop's writer to one."""

    def write(self, data: bytes, /) -> object:
        """Writes bytes."""
        ...


def read_message(stream: BinaryIO) -> Any:
    """Returns the next message of a pipe; raises an EOFError if the other side has ended."""
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        raise EOFError
    (size,) = _HEAD.unpack(head)
    content = stream.read(size)
    if len(content) < size:
        raise EOFError
    # Only from mtkit's own processes.
    return pickle.loads(content)  # nosec B301


def write_message(stream: SupportsWrite, content: Any) -> None:
    """Writes a message."""
    packed = pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    # Joining them would copy megabytes once more.
    stream.write(_HEAD.pack(len(packed)))
    stream.write(packed)


class ChildProcess:
    """The server's side of a child process; all its methods belong to one event loop."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def send(self, content: Any) -> None:
        """Sends a message."""
        assert self._process.stdin is not None
        # If the pipe is already closed, the receiver detects the process's end next.
        with suppress(OSError, RuntimeError):
            write_message(self._process.stdin, content)

    async def receive(self) -> Any:
        """Returns the next message; raises an IncompleteReadError if the process has ended."""
        stream = self._process.stdout
        assert stream is not None
        head = await stream.readexactly(_HEAD.size)
        content = await stream.readexactly(_HEAD.unpack(head)[0])
        # Only from mtkit's own processes.
        return pickle.loads(content)  # nosec B301

    def end(self) -> None:
        """Kills the process."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    def measure_bytes(self) -> int:
        """Returns the resident memory; 0 if the system doesn't report it."""
        return _read_status(str(self.pid), 1)


async def start_process(module: str, *, knows_secrets: bool) -> asyncio.subprocess.Process:
    """Starts a process that runs a module's `main`, with pipes to its stdin and stdout.

    Unless it `knows_secrets`, its environment lacks variables whose names suggest them.
    """
    command, options = prepare_start(module)
    if not knows_secrets:
        options["env"] = {
            name: value for name, value in options["env"].items() if not _SECRET.search(name)
        }
    return await asyncio.create_subprocess_exec(*command, **options)


def measure_allocated() -> int:
    """Returns this process's allocated memory, resident or not; 0 if it is unknown."""
    return _read_status("self", 5)


def _read_status(process: str, field: int) -> int:
    try:
        status = Path(_STATUS_FILE.format(process)).read_text(encoding="ascii")
        return int(status.split()[field]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return 0


def limit_memory(max_bytes: int) -> None:
    """Limits the memory that this process may allocate."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    allowed = max_bytes if hard == resource.RLIM_INFINITY else min(max_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))
