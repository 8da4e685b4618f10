"""Files written whole or not at all, and JSON read from them."""

import errno
import json
import os
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from mtkit.errors import MtkitError, shorten
from mtkit.foreign_files import parse_json, read_file

_MAX_JSON_BYTES = 16 << 20
_CANT_RESERVE = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
"""Errors of file systems that set no space aside."""


def read_json(path: Path, *, max_bytes: int = _MAX_JSON_BYTES) -> dict[str, Any]:
    """Returns the JSON object in a file that mtkit wrote.

    NaN and infinities, which aren't JSON, become None.

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


def check_format(facts: Mapping[str, Any], path: Path, expected: int, hint: str) -> None:
    """Checks the number of the format that a file of mtkit's has.

    Args:
        facts: The file's content, with its number under `format_version`.
        path: The file, for the message.
        expected: The number that this version reads.
        hint: How to make the file again.

    Raises:
        MtkitError: Another version of mtkit made it.
    """
    found = facts.get("format_version")
    if isinstance(found, int) and found > expected:
        raise MtkitError(
            f"{path}: format {shorten(str(found), 20)}, but this version of mtkit reads {expected}",
            "pip install --upgrade mtkit",
        )
    if found != expected:
        raise MtkitError(f"{path}: made by an unreleased mtkit", hint)


def as_json_text(content: object, *, is_ascii: bool = False) -> str:
    """Returns content as indented JSON that ends with a line feed; NaN and infinity are refused.

    Args:
        content: What `json` can write.
        is_ascii: Whether all other characters are written as JSON's own escapes.
    """
    text = json.dumps(content, indent=2, ensure_ascii=is_ascii, allow_nan=False)
    return f"{text}\n"


def write_atomically(path: Path, content: str | bytes) -> None:
    r"""Writes a text, or bytes, to a file; after a crash or an error it is as it was, or whole.

    Bytes of a path that are invalid UTF-8 are written as `\udcff`, which JSON reads as they were.
    """
    if isinstance(content, str):
        content = content.encode("utf-8", errors="backslashreplace")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        with draft.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
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
    """Sets disk space aside for all of a file, where the system can do that.

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
