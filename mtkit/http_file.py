"""A file at a URL, read with range requests (RFC 9110, section 14).

Separate from storage.py, because its imports take 3 MiB in each process.
"""

import io
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse
from typing import Any, TypeVar, cast
from urllib.parse import quote, urlsplit, urlunsplit

from mtkit.errors import MtkitError
from mtkit.remote_files import (
    TRANSIENT,
    Failure,
    FileVersion,
    changed_meanwhile,
    mask_secrets,
    retry,
)

_BUFFER_BYTES = 1 << 18
_TIMEOUT_SECONDS = 60.0
_MAX_PAUSE = 60.0
_PARTIAL = 206
_NO_HEAD = (403, 405, 501)
"""Statuses of servers that answer GET alone."""
_URL_CHARACTERS = "%/:?#[]@!$&'()*+,;=-._~"
_Result = TypeVar("_Result")


class HttpFile(io.RawIOBase):
    """A file at a URL.

    One response is read as long as reading is sequential; where it ends too early, and after a
    seek, another one is requested from there on.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._at = 0
        self._response: HTTPResponse | None = None
        self._first_version: FileVersion | None = None
        self._retry(self._open_response)

    def readable(self) -> bool:  # noqa: D102
        return True

    def seekable(self) -> bool:  # noqa: D102
        return True

    def tell(self) -> int:  # noqa: D102
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Sets the position; nothing is requested before the next read."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
        if start is None:
            if self._size is None:
                raise MtkitError(
                    f"{self._url}: the server doesn't say how large the file is",
                    "download it, and give the file's path",
                )
            start = self._size
        if start + offset != self._at:
            self._close_response()
            self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Reads some bytes; returns 0 only at the end.

        Raises:
            MtkitError: It can't be read, or has been replaced by another version meanwhile.
        """
        if self._size is not None and self._at >= self._size:
            return 0
        content = self._retry(lambda: self._read(len(buffer)))
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)

    def close(self) -> None:  # noqa: D102
        self._close_response()
        super().close()

    @property
    def _size(self) -> int | None:
        return None if self._first_version is None else self._first_version.num_bytes

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

    def _open_response(self) -> None:
        """Requests what comes from here on.

        Raises:
            MtkitError: The file has changed.
        """
        headers = {"Range": f"bytes={self._at}-"} if self._at else {}
        self._response = _send(self._url, headers=headers)
        version = _version_of(self._response.headers)
        if self._first_version is not None and self._first_version.is_other(version):
            raise changed_meanwhile(self._url)
        self._first_version = self._first_version or version
        if self._at and self._response.status != _PARTIAL:
            # A server without ranges starts from the beginning.
            left = self._at
            while left and (skipped := self._response.read(min(left, _BUFFER_BYTES))):
                left -= len(skipped)

    def _retry(self, work: Callable[[], _Result]) -> _Result:
        def close_after_error() -> _Result:
            try:
                return work()
            except BaseException:
                self._close_response()
                raise

        return _retry(self._url, close_after_error)

    def _close_response(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None


def read_version(url: str) -> FileVersion:
    """Returns a file's size and validator.

    Raises:
        MtkitError: There is nothing at the address, or it can't be reached.
    """

    def ask() -> FileVersion:
        try:
            with _send(url, method="HEAD") as response:
                return _version_of(response.headers)
        except urllib.error.HTTPError as error:
            if error.code not in _NO_HEAD:
                raise
            error.close()
        # A signed URL is for GET alone.
        with _send(url, headers={"Range": "bytes=0-0"}) as response:
            return _version_of(response.headers)

    return _retry(url, ask)


def _version_of(headers: Message) -> FileVersion:
    """Returns the version that a response's headers name."""
    total = headers.get("Content-Range", "").rpartition("/")[2]
    size = total or headers.get("Content-Length", "")
    validator = headers.get("ETag") or headers.get("Last-Modified") or ""
    return FileVersion(int(size) if size.isdecimal() else None, validator)


def _send(url: str, *, method: str = "GET", headers: dict[str, str] | None = None) -> HTTPResponse:
    # Uncompressed: ranges of a compressed response aren't ranges of the file.
    wanted = {"Accept-Encoding": "identity", "User-Agent": "mtkit", **(headers or {})}
    parts = urlsplit(url)
    # As in a browser: other characters are written as UTF-8.
    path, query = (quote(part, safe=_URL_CHARACTERS) for part in (parts.path, parts.query))
    written = urlunsplit(parts._replace(path=path, query=query))
    request = urllib.request.Request(written, headers=wanted, method=method)
    response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    return cast(HTTPResponse, response)


def _explain(url: str, error: Exception) -> Failure:
    """Returns the user's error for a failed request, and whether a retry may help."""
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        wanted = min(_MAX_PAUSE, read_retry_after(error.headers))
        return Failure(_refused(url, error), error.code in TRANSIENT, wanted)
    reason = getattr(error, "reason", error)
    fault = MtkitError(
        f"{mask_secrets(url)}: can't be read: {reason}",
        "is the address right, and can this machine reach it? Or download it, and give "
        "the file's path",
    )
    return Failure(fault)


def read_retry_after(headers: Mapping[str, str] | Message) -> float:
    """Returns the seconds that a server asks to wait for, as a number or a date; 0 without them."""
    asked = headers.get("Retry-After", "")
    if asked.replace(".", "", 1).isdecimal():
        return float(asked)
    try:
        return max(0.0, (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return 0.0


def _retry(url: str, work: Callable[[], _Result]) -> _Result:
    return retry(work, (OSError, HTTPException), lambda error: _explain(url, error))


def _refused(url: str, error: urllib.error.HTTPError) -> MtkitError:
    return MtkitError(
        f"{mask_secrets(url)}: {error.code} {error.reason}",
        "is the address right? Or download it, and give the file's path",
    )
