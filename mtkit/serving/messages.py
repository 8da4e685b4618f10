"""Messages between the server and its own processes: pickled, each behind its length."""

import asyncio
import pickle
import struct
import sys
from typing import Any, BinaryIO

_HEAD = struct.Struct(">Q")
_RUN = "import sys; sys.path[:] = {path!r}; from {module} import main; main()"


def read_message(stream: BinaryIO) -> Any:
    """Returns the next message of a pipe between parent and child.

    Raises:
        EOFError: The other side has gone.
    """
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        raise EOFError
    content = stream.read(_HEAD.unpack(head)[0])
    # Of mtkit's own processes alone.
    return pickle.loads(content)  # nosec B301


async def receive_message(stream: asyncio.StreamReader) -> Any:
    """Returns the next message, in an event loop.

    Raises:
        IncompleteReadError: The other side has gone.
    """
    head = await stream.readexactly(_HEAD.size)
    content = await stream.readexactly(_HEAD.unpack(head)[0])
    # Of mtkit's own processes alone.
    return pickle.loads(content)  # nosec B301


def pack_message(content: Any) -> bytes:
    """Returns a message as it goes through the pipe."""
    packed = pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    return _HEAD.pack(len(packed)) + packed


async def start_process(module: str) -> asyncio.subprocess.Process:
    """Returns a process that runs a module's `main`, with pipes to its stdin and stdout."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _RUN.format(path=sys.path, module=module),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        # Out of reach of Ctrl-C: the parent decides what becomes of it.
        start_new_session=True,
    )
