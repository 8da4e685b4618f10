"""A lock on a path, for processes and threads."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CANT_LOCK = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""Errors of file systems without locks."""


@contextmanager
def locked(path: Path, *, waits: bool = True, is_shared: bool = False) -> Iterator[bool]:
    """Keeps out others who lock the same path while the block runs; not reentrant.

    The lock is on a hidden file next to the path, which exists only while it is locked; the path's
    folder must exist. The system releases the lock when the process ends, however it ends. Yields
    whether the lock is held: False if the system or the file system has no locks. Raises
    BlockingIOError if another holder has it and `waits` is False. With `is_shared` any number of
    holders may share it; the file stays until the next exclusive one.
    """
    file = path.with_name(f".{path.name.removeprefix('.')}.lock")
    descriptor = _acquire(file, waits=waits, is_shared=is_shared)
    if descriptor is None:
        yield False
        return
    try:
        yield True
    finally:
        _release(file, descriptor, is_shared=is_shared)


def _acquire(file: Path, *, waits: bool, is_shared: bool) -> int | None:
    """Returns the descriptor that holds a lock on a file; None if there are no locks."""
    try:
        # Not on Windows.
        import fcntl  # noqa: PLC0415
    except ModuleNotFoundError:
        return None
    operation = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    operation |= 0 if waits else fcntl.LOCK_NB
    while True:
        # For writing: NFS locks only files that are open for writing.
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
        # The previous holder has removed the file: the lock is on nothing.
        os.close(descriptor)


def _release(file: Path, descriptor: int, *, is_shared: bool) -> None:
    import fcntl  # noqa: PLC0415

    # Removed while the lock is held, so that it can't be another holder's file.
    if not is_shared:
        file.unlink(missing_ok=True)
    # A fork may have inherited the descriptor: closing it here wouldn't lift the lock.
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _is_still(file: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
