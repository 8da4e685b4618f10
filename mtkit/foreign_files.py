"""Files that may be a stranger's: read where they are regular files of their folder, and small.

What a model folder or a workspace holds may come from anywhere: a link to another place, a pipe
that never ends, a file of brackets. Each is reported before it costs memory or time.
"""

import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit.errors import MtkitError, shorten

if TYPE_CHECKING:
    from pydantic import ValidationError

_LONGEST_FAULT = 200
"""Characters that are shown of what such a file says."""


def check_file(path: Path, *, inside: Path | None = None) -> int:
    """Returns the size of a regular file, in bytes.

    Args:
        path: The file, or a link to it.
        inside: Folder that it must lie in once all links are followed; where not given, the one
            that its path names.

    Raises:
        FileNotFoundError: It isn't there.
        MtkitError: It is a folder, a pipe or a device, or lies elsewhere.
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
    """Returns what a regular file holds.

    Args:
        path: The file.
        max_bytes: A longer one is refused.
        inside: As `check_file` takes it.

    Raises:
        FileNotFoundError: It isn't there.
        MtkitError: What `check_file` raises; it is too long.
    """
    num_bytes = check_file(path, inside=inside)
    if num_bytes > max_bytes:
        raise MtkitError(f"{path}: {num_bytes:,} bytes, expected {max_bytes:,} at most")
    return path.read_bytes()


def parse_json(content: bytes, path: Path) -> Any:
    """Returns what JSON says; NaN and infinities, which aren't JSON, become None.

    Args:
        content: The JSON.
        path: The file that holds it, for messages.

    Raises:
        MtkitError: It is damaged, or no parser could read it.
    """
    try:
        return json.loads(content.decode("utf-8"), parse_constant=lambda _: None)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise MtkitError(f"{path}: damaged, invalid JSON: {error}") from error
    except RecursionError as error:
        raise MtkitError(f"{path}: damaged: nested too deeply") from error
    except ValueError as error:
        raise MtkitError(f"{path}: damaged: a number with too many digits") from error


def describe_fault(error: "ValidationError") -> str:
    """Returns the first thing that is wrong with what a file says, and at which key."""
    fault = error.errors(include_url=False, include_input=False)[0]
    key = ".".join(str(step) for step in fault["loc"])
    message = f"{key}: {fault['msg']}" if key else str(fault["msg"])
    return shorten(message, _LONGEST_FAULT)
