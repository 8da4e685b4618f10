"""The exception for errors that the user can fix, and how they are worded."""

import difflib
import errno
import os
from collections.abc import Iterable

FULL_INSTALL = frozenset({"torch", "datasets", "pyarrow", "matplotlib"})
"""Packages that training and preparing data need, and that a light install lacks."""
_RUN_AGAIN = "free some disk space, then run the same command again: finished work is kept"
_PERMISSIONS = (
    "check the owner and permissions of the file and its folder, or choose another folder"
)
_HINTS = {
    errno.ENOSPC: _RUN_AGAIN,
    errno.EDQUOT: _RUN_AGAIN,
    errno.EACCES: _PERMISSIONS,
    errno.EPERM: _PERMISSIONS,
    errno.EROFS: "choose a folder that can be written to",
}


class MtkitError(Exception):
    """An error that the user can fix.

    Attributes:
        message: What was found, where (file:line or recipe key), and what was expected.
        hint: The next thing to do, as a sentence or a command; empty if there is none.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def fail_at(text: str, position: int, fault: str, hint: str = "") -> MtkitError:
    """Returns an error in a text, with the line number of a position."""
    return MtkitError(f"line {text.count(chr(10), 0, position) + 1}: {fault}", hint)


def how_to_install(extra: str) -> str:
    """Returns the hint for a missing package of one of mtkit's extras."""
    return f"in the folder that holds mtkit's code: pip install '.[{extra}]'"


def explain_missing_package(error: ModuleNotFoundError) -> MtkitError:
    """Returns the user's error for a package that a light install lacks; raises other errors."""
    if error.name not in FULL_INSTALL:
        raise error
    return MtkitError(
        f"this needs the package {error.name}, which isn't installed",
        f"pip install {error.name}; or everything, in the folder that holds mtkit's code: "
        "pip install -c constraints.txt .",
    )


def is_disk_full(error: BaseException) -> bool:
    """Checks that an error means a full disk or an exceeded quota."""
    if not isinstance(error, OSError):
        return False
    # numpy's `tofile` gives no number: "1528 requested and 404 written".
    is_from_numpy = error.errno is None and "requested and" in str(error)
    return is_from_numpy or error.errno in (errno.ENOSPC, errno.EDQUOT)


def explain_system_fault(error: OSError) -> MtkitError:
    """Returns what the operating system refused, and where, as an error for the user."""
    reason = error.strerror or str(error) or type(error).__name__
    origin = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    return MtkitError(origin + reason, _HINTS.get(error.errno or 0, ""))


def shorten(text: str, max_characters: int) -> str:
    """Returns a text, truncated if it is long: a file's content may be huge."""
    return text if len(text) <= max_characters else f"{text[:max_characters]}..."


def suggest(name: str, known: Iterable[str]) -> str:
    """Returns ` (did you mean 'x'?)` for the known name closest to `name`, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean '{close[0]}'?)" if close else ""
