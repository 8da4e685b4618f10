"""Files written whole or not at all, folders put in place of others, digests of both."""

import errno
import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from mtkit.errors import MtkitError
from mtkit.foreign_files import parse_json, read_file
from mtkit.locks import locked

_MAX_JSON_BYTES = 16 << 20
_CANT_RESERVE = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
"""What file systems answer that set no space aside."""


def read_json(path: Path, *, max_bytes: int = _MAX_JSON_BYTES) -> dict[str, Any]:
    """Returns the JSON object in a file that mtkit wrote.

    NaN and infinities, which aren't JSON and which older versions could write, become None.

    Args:
        path: The file.
        max_bytes: A longer one is refused: as objects it takes many times the memory.

    Raises:
        MtkitError: The file is damaged, too large, or leads out of its folder.
    """
    content = parse_json(read_file(path, max_bytes=max_bytes), path)
    if not isinstance(content, dict):
        raise MtkitError(f"{path}: damaged: expected a JSON object")
    return content


def write_atomically(path: Path, text: str) -> None:
    r"""Leaves `text` in a file that a crash can't leave half written; an error leaves no draft.

    Bytes of a path that are invalid UTF-8 are written as `\udcff`, which JSON reads as they were.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        with draft.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _sync(path: Path) -> None:
    """Leaves a file's bytes, or a folder's entries, on the disk and not in a buffer alone."""
    # Not every system and file system can do that for a folder.
    with suppress(OSError) if path.is_dir() else nullcontext():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def building(folder: Path, *, then: Callable[[Path], None] | None = None) -> Iterator[Path]:
    """Yields an empty draft folder that takes the place of `folder` once the block succeeds.

    Where it fails, the draft is removed and `folder` stays as it was. Each draft is its builder's
    alone: of two that build the same folder at once, the last to finish leaves its own, whole.

    Args:
        folder: Where the draft goes.
        then: Called with `folder` once the draft is there, before anyone else can replace it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    restore_retired(folder)
    _remove_abandoned_drafts(folder)
    draft = folder.with_name(f".{folder.name}.{os.getpid()}-{secrets.token_hex(4)}.draft")
    # Held while the draft is there: it tells others that the draft has an owner.
    with locked(draft):
        draft.mkdir()
        try:
            yield draft
            for path in (draft, *draft.rglob("*")):
                _sync(path)
            put_in_place(draft, folder, then=then)
        except BaseException:
            # On a full disk, half of a checkpoint would keep it full.
            remove_folder(draft)
            raise


def put_in_place(draft: Path, folder: Path, *, then: Callable[[Path], None] | None = None) -> None:
    """Leaves a finished draft as `folder`; a crash leaves the older one, or lets it be restored.

    Args:
        draft: What takes the place of `folder`.
        folder: Where it goes.
        then: Called with `folder` once the draft is there, before anyone else can replace it.
    """
    with locked(folder):
        _restore_retired(folder)
        retired = _retired(folder)
        if folder.exists():
            folder.rename(retired)
        draft.rename(folder)
        _sync(folder.parent)
        discard_folder(retired)
        if then is not None:
            then(folder)


def _remove_abandoned_drafts(folder: Path) -> None:
    """Removes drafts of a folder whose builders were killed, of earlier versions' too."""
    kind = re.compile(rf"\.{re.escape(folder.name)}(\.\d+-[0-9a-f]{{8}})?\.draft(\.lock)?")
    for path in list(folder.parent.iterdir()):
        if kind.fullmatch(path.name):
            draft = path.with_name(path.name.removesuffix(".lock"))
            # What is another user's stays.
            with suppress(BlockingIOError, PermissionError), locked(draft, waits=False) as is_held:
                if is_held:
                    remove_folder(draft)


@contextmanager
def at_work_alone(folder: Path, what: str) -> Iterator[None]:
    """Keeps other processes from the same work in a folder while the block runs.

    The system lifts the lock when the process ends, however it does.

    Args:
        folder: Where; it must exist.
        what: Name of the work, for messages.

    Raises:
        MtkitError: Another process is at it.
    """
    try:
        # Not on Windows, which can't lock a folder.
        import fcntl  # noqa: PLC0415
    except ModuleNotFoundError:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise MtkitError(
            f"{folder}: {what} can't start: another mtkit command is at work here",
            "wait for it, or name another folder with --workspace",
        ) from error
    else:
        yield
    finally:
        os.close(descriptor)


def reserve(path: Path) -> None:
    """Leaves disk space set aside for all of a file, where the system can do that.

    A file that is written through a memory map has holes first; filling them on a full disk would
    kill the process.

    Raises:
        OSError: The disk is full.
    """
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as stream:
            try:
                os.posix_fallocate(stream.fileno(), 0, path.stat().st_size)
            except OSError as error:
                if error.errno not in _CANT_RESERVE:
                    # The system doesn't say which file.
                    raise OSError(error.errno, error.strerror, str(path)) from error


def restore_retired(folder: Path) -> None:
    """Leaves a folder in its place that a kill between two renames of `building` took out of it."""
    if _retired(folder).exists():
        # Whoever is between the two renames just now holds the lock.
        with locked(folder):
            _restore_retired(folder)


def _restore_retired(folder: Path) -> None:
    retired = _retired(folder)
    if folder.exists():
        discard_folder(retired)
    elif retired.exists():
        retired.rename(folder)


def _retired(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.retired")


def discard_folder(folder: Path) -> None:
    """Removes a folder; a kill half way leaves no half of it under its name."""
    discarded = folder.with_name(f".{folder.name.strip('.')}.discarded")
    remove_folder(discarded)
    if folder.exists():
        folder.rename(discarded)
        remove_folder(discarded)


def remove_folder(folder: Path) -> None:
    """Removes a folder that mtkit made, if it is there; a link is removed, not followed."""
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                remove_folder(path)
            else:
                path.unlink()
        folder.rmdir()


def digest(content: Any) -> str:
    """Returns a short digest of anything JSON can express, the same on every machine."""
    canonical = json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False)
    # Paths among it may be invalid UTF-8.
    return hashlib.sha256(canonical.encode(errors="surrogateescape")).hexdigest()[:16]


def digest_bytes(content: bytes) -> str:
    """Returns a short digest of bytes: of a file that holds them, the same as `digest_file`."""
    return hashlib.sha256(content).hexdigest()[:16]


def digest_file(path: Path) -> str:
    """Returns a short digest of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:16]
