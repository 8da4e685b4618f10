"""Has the server of warm.py run a command, and ends as that does; it imports next to nothing.

`socket`, `signal` and `typing` take three times as long to import as Python to start.
"""

import _signal as signal
import _socket as socket
import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
HEADER = 8
"""Bytes of a request's length."""
_MAIN = "from mtkit.cli.app import main; main()"


def read(connection: socket.socket, count: int) -> bytes:
    """Returns so many bytes."""
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise EOFError("the server of commands ended")
        data += part
    return data


def _ask_as_python(address: str, arguments: list[str]) -> "NoReturn":
    """Has the server run `-c CODE`; Python itself does all else."""
    if arguments[0] == "-c":
        _ask(address, arguments[1], arguments[2:])
    os.execv(sys.executable, [sys.executable, *arguments])


def _ask(address: str, code: str, arguments: list[str]) -> "NoReturn":
    """Has the server run a program, and ends as that does."""
    closed = [number for number in (0, 1, 2) if not _is_open(number)]
    for _ in closed:
        # The lowest free number, which nothing else may get.
        os.open(os.devnull, os.O_RDWR)
    request = marshal.dumps(
        {
            "closed": closed,
            "code": code,
            "arguments": arguments,
            "folder": os.getcwd(),  # noqa: PTH109 (pathlib takes as long to import as all else)
            "environment": dict(os.environ),
        }
    )
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    for number in FORWARDED:
        signal.signal(number, lambda number, _: connection.sendall(bytes([number])))
    fds = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (0, 1, 2))
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)
    connection.sendmsg([len(request).to_bytes(HEADER)], [rights])
    connection.sendall(request)
    for number in (0, 1, 2):
        os.close(number)
    code = int.from_bytes(read(connection, 4), signed=True)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    if sys.argv[1] == "--python":
        _ask_as_python(sys.argv[2], sys.argv[3:])
    else:
        _ask(sys.argv[1], _MAIN, sys.argv[2:])
