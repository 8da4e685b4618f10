"""A lock on a path, which processes and threads take in turn."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CANT_LOCK = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""Errors of file systems that have no locks."""


@contextmanager
def locked(path: Path, *, waits: bool = True) -> Iterator[bool]:
    """Keeps out everyone else who locks the same path while the block runs.

    The lock is on a hidden file beside the path, which is there only meanwhile. The system lifts it
    when the process ends, however it does. Who holds it mustn't take it again.

    Args:
        path: What is locked; it needn't exist, its folder must.
        waits: Whether to wait while someone else holds the lock.

    Yields:
        Whether the lock is held; False where the system or the file system has no locks.

    Raises:
        BlockingIOError: Someone else holds the lock, and `waits` is False.
    """
    file = path.with_name(f".{path.name.removeprefix('.')}.lock")
    descriptor = _take(file, waits=waits)
    if descriptor is None:
        yield False
        return
    try:
        yield True
    finally:
        _give_back(file, descriptor)


def _take(file: Path, *, waits: bool) -> int | None:
    """Returns the descriptor that holds a lock on a file; None where there are no locks."""
    try:
        # Not on Windows.
        import fcntl  # noqa: PLC0415
    except ModuleNotFoundError:
        return None
    operation = fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB)
    while True:
        # For writing: a network file system locks no other.
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, operation)
            if _is_still(file, descriptor):
                return descriptor
        except OSError as error:
            os.close(descriptor)
            if error.errno not in _CANT_LOCK:
                raise
            file.unlink(missing_ok=True)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        # Whoever held it before has removed the file: the lock is on nothing.
        os.close(descriptor)


def _give_back(file: Path, descriptor: int) -> None:
    import fcntl  # noqa: PLC0415

    # Removed while the lock is held, so that it can't be someone else's file.
    file.unlink(missing_ok=True)
    # A fork may have inherited the descriptor: closing it here wouldn't lift the lock.
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _is_still(file: Path, descriptor: int) -> bool:
    """Checks that a path still leads to an open file."""
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
