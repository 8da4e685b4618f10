"""Paths whose names aren't plain text: a system's file names are bytes, any but `/` and 0."""

import os
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_BREAKS_LINES = ("Cc", "Zl", "Zp")
"""Unicode's categories of control characters and of what separates lines and paragraphs."""


def as_text(name: str | os.PathLike[str]) -> str:
    r"""Returns a file's name or path as one line of text that any table, page or JSON can hold.

    Bytes that are invalid UTF-8 and control characters are written as in Python: `\xff`, `\t`.
    """
    return "".join(
        repr(character)[1:-1] if unicodedata.category(character) in _BREAKS_LINES else character
        for character in without_surrogates(os.fspath(name))
    )


def without_surrogates(text: str) -> str:
    r"""Returns a text with the bytes in it that the system couldn't decode written as `\xff`."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        # Half a character, which no system's path holds.
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


@contextmanager
def for_library(path: Path) -> Iterator[Path]:
    """Yields a path that leads to the same file or folder and is valid UTF-8.

    For libraries that take no other; where a path is invalid, a link in a temporary folder is.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError:
        with TemporaryDirectory(prefix="mtkit-link-") as folder:
            link = Path(folder) / "link"
            link.symlink_to(path.absolute())
            yield link
    else:
        yield path
