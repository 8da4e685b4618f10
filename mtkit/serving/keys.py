"""API keys, stored as hashes; and rate limits."""

import hashlib
import hmac
import re
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError

from mtkit.console import warn
from mtkit.errors import MtkitError
from mtkit.files import write_atomically
from mtkit.recipe.key_errors import validate_tables
from mtkit.recipe.read_toml import read_toml
from mtkit.recipe.section import Count, CountFromZero, Section
from mtkit.serving.request_errors import RequestError

_MAX_CALLERS = 10_000
_POLL_SECONDS = 1.0
KeyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]


def _check_hash(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise ValueError(
            "expected 64 hexadecimal digits, as `mtkit serve --new-key NAME` writes them"
        )
    return text


class ApiKey(Section):
    """One `[[keys]]` of the file."""

    name: KeyName
    """Name of its owner in logs."""
    sha256: Annotated[str, AfterValidator(_check_hash)]
    """Hash of the key, whose 256 random bits can't be guessed from it."""
    requests_per_minute: CountFromZero | None = None
    """Overrides the server's limit."""
    max_characters: Count | None = None
    """Overrides the server's limit."""


class _KeyFile(Section):
    keys: tuple[ApiKey, ...] = ()


class KeyRing:
    """The keys in a file, which is read again when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_at = 0.0
        self._stamp: tuple[int, int] | None = None
        self._faulty: tuple[int, int] | None = None
        self._num_failures = 0
        self._keys: tuple[ApiKey, ...] = ()
        self.reload()

    def reload(self) -> None:
        """Reads the file; if it is invalid, keeps the keys and raises an MtkitError."""
        stamp = self._read_stamp()
        self._keys = _read(self._path).keys
        self._stamp = stamp

    def find(self, shown: str) -> ApiKey | None:
        """Returns the key that a caller presents, or None, in constant time."""
        if time.monotonic() - self._read_at > _POLL_SECONDS:
            self._read_at = time.monotonic()
            stamp = self._read_stamp()
            if stamp is None:
                if self._stamp is not None:
                    warn(f"{self._path}: no such file: requests are rejected until it is back")
                self._stamp, self._keys = stamp, ()
            elif stamp != self._stamp:
                self._read_again(stamp)
        digest = _hash(shown)
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.sha256, digest):
                found = key
        return found

    def _read_again(self, stamp: tuple[int, int]) -> None:
        try:
            self.reload()
        except (MtkitError, OSError) as error:
            # A file that is being written is faulty for a moment: the second look reports it.
            self._num_failures = self._num_failures + 1 if stamp == self._faulty else 1
            self._faulty = stamp
            if self._num_failures == 2:
                warn(f"{error}; the API keys read before stay valid until the file is repaired")

    def _read_stamp(self) -> tuple[int, int] | None:
        """Returns the file's modification time and size; None if it is missing."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        except OSError:
            return (0, 0)
        return status.st_mtime_ns, status.st_size


def add_key(path: Path, name: str) -> str:
    """Adds a new key to a file, which may be new; returns the key, which can't be shown again."""
    keys = list(_read(path).keys) if path.exists() else []
    if any(key.name == name for key in keys):
        raise MtkitError(f"{path}: a key named {name} already exists", "choose another name")
    shown = secrets.token_urlsafe(32)
    try:
        ApiKey(name=name, sha256=_hash(shown))
    except ValidationError as error:
        raise MtkitError(
            f"--new-key {name!r}: expected 1 to 64 letters, digits, dots, dashes and underscores"
        ) from error
    before = path.read_text("utf-8") if path.exists() else ""
    if before and not before.endswith("\n"):
        before += "\n"
    write_atomically(path, f'{before}[[keys]]\nname = "{name}"\nsha256 = "{_hash(shown)}"\n')
    path.chmod(0o600)
    return shown


def _read(path: Path) -> _KeyFile:
    try:
        return validate_tables(_KeyFile, read_toml(path), origin=str(path))
    except FileNotFoundError as error:
        raise MtkitError(
            f"{path}: no such API key file", f"make one: mtkit serve --keys {path} --new-key NAME"
        ) from error


def _hash(shown: str) -> str:
    return hashlib.sha256(shown.encode("utf-8", errors="replace")).hexdigest()


@dataclass
class _Bucket:
    tokens: float
    filled_at: float


class RateLimiter:
    """Limits each caller's requests per minute (a token bucket each).

    It keeps the last 10,000 callers.
    """

    def __init__(self) -> None:
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def spend(self, caller: str, cost: int, per_minute: int) -> None:
        """Counts a request.

        Args:
            caller: A key's name, or an address.
            cost: Requests that it counts as, at most `per_minute`.
            per_minute: The limit; 0 for none.

        Raises:
            RequestError: The limit is exceeded.
        """
        if not per_minute:
            return
        now = time.monotonic()
        bucket = self._buckets.pop(caller, None) or _Bucket(float(per_minute), now)
        refill = (now - bucket.filled_at) * per_minute / 60.0
        bucket.tokens, bucket.filled_at = min(per_minute, bucket.tokens + refill), now
        self._buckets[caller] = bucket
        if len(self._buckets) > _MAX_CALLERS:
            self._buckets.popitem(last=False)
        cost = min(cost, per_minute)
        if bucket.tokens < cost:
            wait = int((cost - bucket.tokens) * 60.0 / per_minute) + 1
            raise RequestError(
                429, f"Slowdown: {per_minute} per 1 minute", headers={"Retry-After": str(wait)}
            )
        bucket.tokens -= cost
