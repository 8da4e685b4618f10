"""Reads untrusted files: only regular files inside their folder, and only small ones.

A model folder or a workspace may come from anywhere, with a link to another place, a pipe that
never ends, or a file of brackets. Each is rejected before it costs memory or time.
"""

import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit.errors import MtkitError, shorten

if TYPE_CHECKING:
    from pydantic import ValidationError

_LONGEST_FAULT = 200
"""Maximum characters shown of such a file's content."""


def check_file(path: Path, *, inside: Path | None = None) -> int:
    """Returns the size of a regular file, in bytes.

    With all links followed, the file must be in `inside`, by default the folder of its path. Raises
    FileNotFoundError if it is missing, and MtkitError if it is elsewhere or not a regular file.
    """
    try:
        status = path.stat()
        resolved = path.resolve()
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, error.strerror, str(path)) from error
    if not resolved.is_relative_to((inside if inside is not None else path.parent).resolve()):
        raise MtkitError(
            f"{path}: a link out of its folder, to {resolved}; such links aren't followed",
            "if you trust it, copy the folder with the files it links to: cp -rL FOLDER NEW",
        )
    if not stat.S_ISREG(status.st_mode):
        raise MtkitError(f"{path}: not a regular file")
    return status.st_size


def read_file(path: Path, *, max_bytes: int, inside: Path | None = None) -> bytes:
    """Returns the bytes of a regular file of at most `max_bytes`; raises as `check_file`."""
    num_bytes = check_file(path, inside=inside)
    if num_bytes > max_bytes:
        raise MtkitError(f"{path}: {num_bytes:,} bytes, expected {max_bytes:,} at most")
    return path.read_bytes()


def parse_json(content: bytes, path: Path) -> Any:
    """Returns parsed JSON; NaN and infinities, which aren't JSON, become None."""
    try:
        return json.loads(content.decode("utf-8"), parse_constant=lambda _: None)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise MtkitError(f"{path}: damaged, invalid JSON: {error}") from error
    except RecursionError as error:
        raise MtkitError(f"{path}: damaged: nested too deeply") from error
    except ValueError as error:
        raise MtkitError(f"{path}: damaged: a number with too many digits") from error


def describe_fault(error: "ValidationError") -> str:
    """Returns the first fault that validation found in a file, and its key."""
    fault = error.errors(include_url=False, include_input=False)[0]
    key = ".".join(str(step) for step in fault["loc"])
    message = f"{key}: {fault['msg']}" if key else str(fault["msg"])
    return shorten(message, _LONGEST_FAULT)
