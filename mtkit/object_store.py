"""Objects of S3, Azure, Google Cloud and the Hugging Face hub, read in ranges through fsspec.

Credentials come from each library's own chain. A library's messages may quote a signed address, so
users see only statuses and names of errors.
"""

import io
import os
import sys
from collections.abc import Callable, Mapping
from http.client import responses
from pathlib import Path
from typing import Any, TypeVar

from mtkit.errors import MtkitError, how_to_install
from mtkit.remote_files import (
    TRANSIENT,
    Failure,
    FileVersion,
    changed_meanwhile,
    mask_secrets,
    retry,
)

_AZURE = ("adlfs", "azure")
_EXTRAS = {"s3": ("s3fs", "s3"), "az": _AZURE, "abfs": _AZURE, "gs": ("gcsfs", "gcs")}
"""Package and mtkit's extra for each protocol."""
_OPTIONS: dict[str, dict[str, Any]] = {
    # Retries of retries would take minutes. Each part that is uploaded at once takes 50 MiB.
    "s3": {"config_kwargs": {"retries": {"total_max_attempts": 1}}, "max_concurrency": 2},
}
_ERRORS = (
    ("aiohttp", "ClientError"),
    ("azure.core.exceptions", "AzureError"),
    ("botocore.exceptions", "BotoCoreError"),
    ("botocore.exceptions", "ClientError"),
    ("gcsfs.retry", "HttpError"),
    ("google.auth.exceptions", "GoogleAuthError"),
    ("httpx", "HTTPError"),
)
"""Errors of the libraries; a module that isn't loaded raises none."""
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, ValueError)
_NO_CREDENTIALS = ("Credentials", "Authentication", "Token")
_MISCONFIGURED = ("Config", "HfUri", "ParamValidation", "Profile")
_VALIDATORS = (
    "ETag", "etag", "generation", "blob_id", "LastModified", "last_modified", "mtime", "created"
)  # fmt: skip
_MIN_BLOCK, _MAX_BLOCK = 1 << 18, 1 << 23
"""Bytes of a request after a seek, and after many sequential ones."""
_Result = TypeVar("_Result")


class ObjectFile(io.RawIOBase):
    """An object, read in blocks, which get longer while reading is sequential."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._at, self._block, self._block_start = 0, b"", 0
        self._block_bytes = _MIN_BLOCK
        self._version = read_version(url)
        self._size = self._version.num_bytes or 0

    def readable(self) -> bool:  # noqa: D102
        return True

    def seekable(self) -> bool:  # noqa: D102
        return True

    def tell(self) -> int:  # noqa: D102
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Sets the position; nothing is requested before the next read."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence, self._size)
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Reads some bytes; returns 0 only at the end.

        Raises:
            MtkitError: It can't be read, or has been replaced by another version meanwhile.
        """
        if self._at >= self._size:
            return 0
        first = self._at - self._block_start
        if not 0 <= first < len(self._block):
            self._read_block()
            first = 0
        content = self._block[first : first + len(buffer)]
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)

    def _read_block(self) -> None:
        is_sequential = self._block and self._at == self._block_start + len(self._block)
        wanted = min(_MAX_BLOCK, 2 * self._block_bytes) if is_sequential else _MIN_BLOCK
        start, self._block_bytes = self._at, wanted
        end = min(start + wanted, self._size)
        self._block = b""
        self._block, self._block_start = _read_range(self._url, start, end), start
        # The object may have been replaced since its version was read.
        if self._version.is_other(read_version(self._url)):
            raise changed_meanwhile(self._url)


def read_version(url: str) -> FileVersion:
    """Returns size and validator of an object.

    Raises:
        MtkitError: There is none at the URL, or the store can't be reached.
    """

    def look(store: Any, path: str) -> FileVersion:
        store.invalidate_cache()
        facts = store.info(path)
        if facts["type"] != "file":
            raise IsADirectoryError
        return FileVersion(facts["size"], find_validator(facts))

    return ask(url, look)


def find_validator(facts: Mapping[str, Any]) -> str:
    """Returns what distinguishes versions of an object, from fsspec's info about it."""
    return str(next((facts[key] for key in _VALIDATORS if facts.get(key)), ""))


def _read_range(url: str, start: int, end: int) -> bytes:
    def read(store: Any, path: str) -> bytes:
        content: bytes = store.cat_file(path, start=start, end=end)
        if len(content) != end - start:
            raise _TruncatedError(f"{len(content):,} of {end - start:,} bytes received")
        return content

    return ask(url, read)


class _TruncatedError(ConnectionError):
    """A response or an upload of an unexpected length."""


def ask(url: str, work: Callable[[Any, str], _Result]) -> _Result:
    """Returns what `work` gives with a URL's fsspec file system and path, retried.

    Raises:
        MtkitError: It fails for good, or a package is missing.
    """
    check_url(url)
    protocol = url.partition("://")[0]
    try:
        # Imported here: only those who name a store need it.
        from fsspec.core import url_to_fs  # noqa: PLC0415

        # Cached listings have stale sizes.
        store, path = url_to_fs(url, use_listings_cache=False, **_OPTIONS.get(protocol, {}))
    except ImportError as error:
        package, extra = _EXTRAS.get(protocol, ("huggingface_hub", ""))
        hint = how_to_install(extra) if extra else f"pip install {package}"
        raise MtkitError(f"{url}: {protocol}:// needs the package {package}", hint) from error
    except ValueError as error:
        raise _fail(url, "no account or credentials are set") from error
    store.retries = 1
    loaded = [(sys.modules.get(module), name) for module, name in _ERRORS]
    errors = tuple(getattr(module, name) for module, name in loaded if module is not None)
    return retry(
        lambda: work(store, path),
        (OSError, ValueError, *errors),
        lambda error: _explain(url, error),
    )


def check_url(url: str) -> None:
    """Checks that a store's URL has no password, signature or chain of file systems in it."""
    _, _, rest = url.partition("://")
    # A password may contain slashes.
    if (
        not rest.strip("/")
        or ":" in rest.rpartition("@")[0]
        or "?" in rest
        or "#" in rest
        or "::" in rest
    ):
        raise MtkitError(
            f"{mask_secrets(url)}: expected STORE://BUCKET/PATH, without a password, ? or #",
            "the store's own variables and files hold credentials, as in AWS_PROFILE",
        )


def put_file(path: Path, url: str) -> None:
    """Uploads a file atomically."""

    def put(store: Any, target: str) -> None:
        store.put_file(str(path), target)
        check_size(store, target, path.stat().st_size)

    ask(url, put)


def check_size(store: Any, path: str, expected: int) -> None:
    """Checks an uploaded object's size; inside of `ask`, which retries."""
    store.invalidate_cache()
    found = store.info(path)["size"]
    if found != expected:
        raise _TruncatedError(f"{found:,} of {expected:,} bytes were stored")


def _explain(url: str, error: Exception) -> Failure:
    """Returns the user's error for a library's, and whether a retry may help."""
    status, name = _find_status(error), type(error).__name__
    has_no_credentials = any(word in name for word in _NO_CREDENTIALS)
    is_misconfigured = any(word in name for word in _MISCONFIGURED)
    is_final = isinstance(error, _FINAL) or has_no_credentials or is_misconfigured
    if isinstance(error, _TruncatedError):
        reason = str(error)
    elif "Payload" in name:
        # aiohttp gives it a status of its own.
        status, reason = None, "the response was truncated"
    elif isinstance(error, FileNotFoundError):
        reason = "no such object"
    elif isinstance(error, IsADirectoryError):
        reason = "a folder, not a file"
    elif isinstance(error, PermissionError) or has_no_credentials:
        reason = "access denied; are the credentials right?"
    else:
        reason = name if status is None else f"{status} {responses.get(status, '')}".strip()
    is_transient = not is_final and (status is None or status in TRANSIENT)
    return Failure(_fail(url, reason), is_transient)


def _fail(url: str, reason: str) -> MtkitError:
    hint = "is the URL right, can this machine reach the store, and does it have credentials?"
    return MtkitError(f"{url}: {reason}", hint)


def _find_status(error: BaseException | None) -> int | None:
    """Returns the HTTP status that a library's error, or its cause, has."""
    while error is not None:
        response = getattr(error, "response", None)
        found = (
            response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if isinstance(response, dict)
            else getattr(error, "status_code", None) or getattr(error, "code", None)
        )
        if isinstance(found, int):
            return found
        error = error.__cause__ or error.__context__
    return None
