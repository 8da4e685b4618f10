"""Paths whose names aren't plain text: file names are bytes, any except `/` and 0."""

import os
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_BREAKS_LINES = ("Cc", "Zl", "Zp")
"""Unicode categories of control characters and of line and paragraph separators."""


def as_text(name: str | os.PathLike[str]) -> str:
    r"""Returns a file's name or path as one line of text that any table, page or JSON can hold.

    Bytes that are invalid UTF-8 and control characters are written as in Python: `\xff`, `\t`.
    """
    return "".join(
        repr(character)[1:-1] if unicodedata.category(character) in _BREAKS_LINES else character
        for character in without_surrogates(os.fspath(name))
    )


def expand_home(path: str | os.PathLike[str]) -> Path:
    """Returns a path with `~` or `~user` replaced; unchanged if there is no such user."""
    # pathlib's own raises an error then.
    return Path(os.path.expanduser(path))  # noqa: PTH111


def without_surrogates(text: str) -> str:
    r"""Returns a text with the bytes that the system couldn't decode written as `\xff`."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        # An unpaired surrogate, which no system's path contains.
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


@contextmanager
def for_library(path: Path) -> Iterator[Path]:
    """Yields a valid UTF-8 path to a file or folder, if necessary through a temporary link."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        with TemporaryDirectory(prefix="mtkit-link-") as folder:
            link = Path(folder) / "link"
            link.symlink_to(path.absolute())
            yield link
    else:
        yield path
