"""TOML files that users write: recipes, keys of a server, large language models."""

import tomllib
from pathlib import Path
from typing import Any

from mtkit.errors import MtkitError
from mtkit.files import read_file

_MAX_BYTES = 1 << 20


def read_toml(path: Path) -> dict[str, Any]:
    """Returns a file's tables.

    Raises:
        MtkitError: The file is too large, or isn't TOML in UTF-8.
        OSError: It can't be read.
    """
    # The user names the file: a link may lead anywhere.
    content = read_file(path, max_bytes=_MAX_BYTES, inside=Path("/"))
    try:
        # Editors on Windows put a byte-order mark in front.
        return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise MtkitError(
            f"{path}:{line}: byte 0x{content[error.start]:02x} is invalid UTF-8",
            "save the file as UTF-8",
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise MtkitError(f"{path}: invalid TOML: {error}", _explain(str(error))) from error
    except (RecursionError, ValueError) as error:
        raise beyond_reading(str(path)) from error


def beyond_reading(origin: str) -> MtkitError:
    """Returns the error of a file that Python can't parse or compare."""
    return MtkitError(f"{origin}: lists nested too deeply, or a number with too many digits")


def _explain(fault: str) -> str:
    if "twice" in fault or "overwrite" in fault:
        return "a section or key is defined twice: change the first and remove the second"
    if "Unicode scalar value" in fault:
        return "if this is a path with invalid UTF-8, rename it, or link to it under another name"
    return 'strings need quotes in TOML, and decimals a point: name = "x", dropout = 0.2'
