"""Files written whole or not at all, and JSON read from them."""

import errno
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any

from mtkit.errors import MtkitError, is_disk_full, shorten
from mtkit.foreign_files import parse_json, read_file

_MAX_JSON_BYTES = 16 << 20
_CANT_RESERVE = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
"""Errors of file systems that can't reserve space."""


def read_json(path: Path, *, max_bytes: int = _MAX_JSON_BYTES) -> dict[str, Any]:
    """Returns the JSON object in a file that mtkit wrote; NaN and infinities become None.

    A file over `max_bytes` is rejected, because its objects take many times the memory.
    """
    content = parse_json(read_file(path, max_bytes=max_bytes), path)
    if not isinstance(content, dict):
        raise MtkitError(f"{path}: damaged: expected a JSON object")
    return content


def check_format(facts: Mapping[str, Any], path: Path, expected: int, hint: str) -> None:
    """Checks `format_version` of a file that mtkit wrote; `hint` is how to make it again."""
    found = facts.get("format_version")
    if isinstance(found, int) and found > expected:
        raise MtkitError(
            f"{path}: format {shorten(str(found), 20)}, but this version of mtkit reads {expected}",
            "pip install --upgrade mtkit",
        )
    if found != expected:
        raise MtkitError(f"{path}: made by an unreleased mtkit", hint)


def as_json_text(content: object, *, is_ascii: bool = False) -> str:
    """Returns content as indented JSON with a final line feed; rejects NaN and infinity."""
    text = json.dumps(content, indent=2, ensure_ascii=is_ascii, allow_nan=False)
    return f"{text}\n"


def write_atomically(path: Path, content: str | bytes) -> None:
    r"""Writes a file; after a crash or an error it is unchanged or whole.

    Bytes of a path that are invalid UTF-8 are written as `\udcff`, which JSON restores.
    """
    if isinstance(content, str):
        content = content.encode("utf-8", errors="backslashreplace")
    with writing_atomically(path) as stream:
        stream.write(content)


@contextmanager
def writing_atomically(path: Path, *, folder: Path | None = None) -> Iterator[IO[bytes]]:
    """Yields a stream whose bytes replace a file when the block succeeds; see `write_atomically`.

    The draft is beside the file, or in a folder of the same file system.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Processes of several machines may have the same number.
    name = f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.draft"
    draft = (folder or path.parent) / name
    try:
        with draft.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    except BaseException as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        if is_disk_full(error) and isinstance(error, OSError):
            # The system doesn't name the file.
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    sync(path.parent)


def sync(path: Path) -> None:
    """Writes a file's bytes, or a folder's entries, from the system's buffers to the disk."""
    # Not every system and file system can do that for a folder.
    with suppress(OSError) if path.is_dir() else nullcontext():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def reserve(path: Path) -> None:
    """Reserves disk space for a file, if the system can; raises OSError on a full disk.

    Filling the holes of a memory-mapped file on a full disk would kill the process.
    """
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as stream:
            try:
                os.posix_fallocate(stream.fileno(), 0, path.stat().st_size)
            except OSError as error:
                if error.errno not in _CANT_RESERVE:
                    # The system doesn't name the file.
                    raise OSError(error.errno, error.strerror, str(path)) from error
