"""Opens and measures files, on disk or at a URL, and detects changed ones.

A file at a URL is read by ranges (RFC 9110, section 14), from where a broken connection ended. An
object store would be another class beside `_HttpFile`.
"""

import io
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from email.message import Message
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeVar, cast
from urllib.parse import unquote, urlsplit

from pydantic_core import CoreSchema, core_schema

from mtkit.errors import MtkitError

_BUFFER_BYTES = 1 << 18
_TIMEOUT_SECONDS = 60.0
_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each retry of a request that failed."""
_MAX_PAUSE = 60.0
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)
"""Statuses that a retry may change."""
_PARTIAL = 206
_Result = TypeVar("_Result")


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


def open_location(location: Location) -> IO[bytes]:
    """Returns a file as a seekable stream; raises MtkitError for a URL, OSError on disk."""
    if isinstance(location, Url):
        return io.BufferedReader(_HttpFile(location), _BUFFER_BYTES)
    return location.open("rb", buffering=_BUFFER_BYTES)


def measure_location(location: Location) -> int | None:
    """Returns the size of a file in bytes; None if a server doesn't report it."""
    if isinstance(location, Url):
        return _Version.of(_request_head(location)).num_bytes
    return location.stat().st_size


def describe_location(location: Location) -> dict[str, Any]:
    """Returns what identifies a file: name, size, and time or ETag; only its name if missing."""
    if isinstance(location, Url):
        version = _Version.of(_request_head(location))
        return {"name": location, "size": version.num_bytes, "version": version.validator}
    if not location.is_file():
        return {"name": location.name}
    status = location.stat()
    return {"name": location.name, "size": status.st_size, "modified_ns": status.st_mtime_ns}


class _Version:
    """Distinguishes versions of a file at a URL."""

    def __init__(self, num_bytes: int | None, validator: str) -> None:
        self.num_bytes, self.validator = num_bytes, validator

    @classmethod
    def of(cls, headers: Message) -> "_Version":
        total = headers.get("Content-Range", "").rpartition("/")[2]
        size = total or headers.get("Content-Length", "")
        validator = headers.get("ETag") or headers.get("Last-Modified") or ""
        return cls(int(size) if size.isdecimal() else None, validator)

    def is_other(self, found: "_Version") -> bool:
        return self.validator != found.validator or (
            None not in (self.num_bytes, found.num_bytes) and self.num_bytes != found.num_bytes
        )


class _HttpFile(io.RawIOBase):
    """A file at a URL; a new request is sent only after a seek or an early end."""

    def __init__(self, url: Url) -> None:
        self._url = url
        self._at = 0
        self._response: HTTPResponse | None = None
        self._version: _Version | None = None
        self._request()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves the position; nothing is requested before the next read."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
        if start is None:
            if self._size is None:
                raise MtkitError(
                    f"{self._url}: the server doesn't say how large the file is",
                    "download it, and give the file's path",
                )
            start = self._size
        if start + offset != self._at:
            self._hang_up()
            self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Reads some bytes, 0 only at the end; MtkitError if the file was replaced."""
        if self._size is not None and self._at >= self._size:
            return 0
        content = self._retry(lambda: self._read(len(buffer)))
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)

    def close(self) -> None:
        self._hang_up()
        super().close()

    @property
    def _size(self) -> int | None:
        return None if self._version is None else self._version.num_bytes

    def _read(self, count: int) -> bytes:
        if self._response is None:
            self._open_response()
        assert self._response is not None
        content = self._response.read1(count) if count else b""
        if not content and self._size is not None:
            raise ConnectionError(
                f"the connection ended after {self._at:,} of {self._size:,} bytes"
            )
        return content

    def _request(self) -> None:
        self._retry(self._open_response)

    def _open_response(self) -> None:
        headers = {"Range": f"bytes={self._at}-"} if self._at else {}
        self._response = _send(self._url, headers=headers)
        version = _Version.of(self._response.headers)
        if self._version is not None and self._version.is_other(version):
            raise MtkitError(
                f"{self._url}: has changed while it was read", "run the same command again"
            )
        self._version = self._version or version
        if self._at and self._response.status != _PARTIAL:
            # A server without ranges starts from the beginning.
            left = self._at
            while left and (skipped := self._response.read(min(left, _BUFFER_BYTES))):
                left -= len(skipped)

    def _retry(self, work: Callable[[], _Result]) -> _Result:
        def hang_up_after_error() -> _Result:
            try:
                return work()
            except BaseException:
                self._hang_up()
                raise

        return _retry(self._url, hang_up_after_error)

    def _hang_up(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None


def _request_head(url: Url) -> Message:
    def ask() -> Message:
        with _send(url, method="HEAD") as response:
            return cast(Message, response.headers)

    return _retry(url, ask)


def _send(url: Url, *, method: str = "GET", headers: dict[str, str] | None = None) -> HTTPResponse:
    # Uncompressed, because positions in a compressed response differ from the file's.
    wanted = {"Accept-Encoding": "identity", "User-Agent": "mtkit", **(headers or {})}
    request = urllib.request.Request(url, headers=wanted, method=method)
    response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    return cast(HTTPResponse, response)


def _retry(url: Url, work: Callable[[], _Result]) -> _Result:
    """Returns a request's result, with some retries if the network or the server fails."""
    for pause in (*_PAUSES, None):
        wanted = 0.0
        try:
            return work()
        except urllib.error.HTTPError as error:
            error.close()
            if error.code not in _TRANSIENT or pause is None:
                raise _refused(url, error) from error
            with suppress(ValueError):
                wanted = min(_MAX_PAUSE, float(error.headers.get("Retry-After", "")))
        except (OSError, HTTPException) as error:
            if pause is None:
                reason = getattr(error, "reason", error)
                raise MtkitError(
                    f"{url}: can't be read: {reason}",
                    "is the address right, and can this machine reach it? Or download it, and give "
                    "the file's path",
                ) from error
        time.sleep(max(pause, wanted))
    raise AssertionError("the last try returns or raises")


def _refused(url: Url, error: urllib.error.HTTPError) -> MtkitError:
    return MtkitError(
        f"{url}: {error.code} {error.reason}",
        "is the address right? Or download it, and give the file's path",
    )
