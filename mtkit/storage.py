"""Opens and measures files, on disk or at a URL, and detects changed ones."""

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pydantic_core import CoreSchema, core_schema

from mtkit.errors import MtkitError
from mtkit.remote_files import changed_meanwhile, mask_secrets

if TYPE_CHECKING:
    from mtkit.remote_files import FileVersion

_BUFFER_BYTES = 1 << 18
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
STORES = ("s3", "az", "abfs", "gs", "hf")
"""Protocols of object stores."""


class Url(str):
    """The URL of a file, with the properties of `Path` that identify its format."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        """Returns the schema of recipes, in which it is text."""
        del source, handler
        return core_schema.json_or_python_schema(
            core_schema.no_info_plain_validator_function(cls._check),
            core_schema.is_instance_schema(cls),
            serialization=core_schema.to_string_ser_schema(),
        )

    @classmethod
    def _check(cls, value: Any) -> "Url":
        if isinstance(value, cls):
            return value
        raise ValueError("expected an address")

    @property
    def is_stored(self) -> bool:
        """Whether it is in an object store."""
        return self.partition("://")[0] in STORES

    @property
    def name(self) -> str:
        """The last part of its path."""
        return PurePosixPath(unquote(urlsplit(self).path)).name

    @property
    def suffix(self) -> str:
        """The ending of its name."""
        return PurePosixPath(self.name).suffix

    @property
    def stem(self) -> str:
        """Its name without the ending."""
        return PurePosixPath(self.name).stem


Location = Path | Url


def find_location(text: str) -> Location:
    """Returns a path on disk, after `file:` or alone, or a URL.

    Raises:
        MtkitError: Neither; the URL isn't quoted without its passwords.
    """
    found = _URL.match(text)
    if not found:
        return Path(text)
    protocol = found[1].lower()
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise MtkitError(f"{mask_secrets(text)}: not a URL: {error}") from error
    if protocol == "file":
        if parts.netloc not in ("", "localhost"):
            raise MtkitError(f"{text}: names a file of another machine", "file:///PATH has three /")
        return Path(unquote(parts.path))
    if protocol in ("http", "https", *STORES):
        return Url(protocol + text[len(protocol) :])
    raise MtkitError(
        f"{mask_secrets(text)} is a URL, but files are read from disk, https://, http:// and "
        + ", ".join(f"{store}://" for store in STORES),
        "download it first",
    )


def open_location(location: Location) -> IO[bytes]:
    """Returns a file as a seekable stream; raises MtkitError for a URL, OSError on disk."""
    if isinstance(location, Url):
        return io.BufferedReader(_open_url(location), _BUFFER_BYTES)
    return location.open("rb", buffering=_BUFFER_BYTES)


def measure_location(location: Location) -> int | None:
    """Returns the size of a file in bytes; None if a server doesn't report it."""
    if isinstance(location, Url):
        return _read_version(location).num_bytes
    return location.stat().st_size


@dataclass(frozen=True)
class FileRange:
    """Bytes of a file that hasn't changed since `version`, its `describe_location`."""

    location: Location
    offset: int
    size: int
    version: Mapping[str, Any]

    def read(self) -> bytes:
        """Returns the bytes; raises MtkitError if the file has changed."""
        check_unchanged(self.location, self.version)
        with open_location(self.location) as stream:
            stream.seek(self.offset)
            return stream.read(self.size)


def check_unchanged(location: Location, version: Mapping[str, Any]) -> None:
    """Checks that a file is the one that `describe_location` described."""
    if describe_location(location) != version:
        raise changed_meanwhile(str(location))


def describe_location(location: Location) -> dict[str, Any]:
    """Returns what identifies a file: name, size, and time or ETag; only its name if missing."""
    if isinstance(location, Url):
        version = _read_version(location)
        return {"name": location, "size": version.num_bytes, "version": version.validator}
    if not location.is_file():
        return {"name": location.name}
    status = location.stat()
    return {"name": location.name, "size": status.st_size, "modified_ns": status.st_mtime_ns}


def _open_url(url: Url) -> io.RawIOBase:
    if url.is_stored:
        from mtkit.object_store import ObjectFile  # noqa: PLC0415

        return ObjectFile(url)
    from mtkit.http_file import HttpFile  # noqa: PLC0415

    return HttpFile(url)


def _read_version(url: Url) -> "FileVersion":
    if url.is_stored:
        from mtkit import object_store  # noqa: PLC0415

        return object_store.read_version(url)
    from mtkit import http_file  # noqa: PLC0415

    return http_file.read_version(url)
