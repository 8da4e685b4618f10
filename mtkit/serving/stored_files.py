"""Translated files, kept for a while under names that nobody can guess."""

import re
import secrets
import tempfile
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from mtkit.serving.faults import busy

_MAX_NAME = 100


@dataclass(frozen=True)
class StoredFile:
    """A translated file.

    Attributes:
        path: Where it lies.
        name: What it is called for who downloads it.
        expires_at: When it is deleted, by `time.monotonic`.
        num_bytes: Its size.
    """

    path: Path
    name: str
    expires_at: float
    num_bytes: int


class FileStore:
    """Keeps files in a folder of its own, which goes with the server.

    Args:
        minutes: How long a file is kept.
        max_bytes: Of all files together; the oldest make room.
    """

    def __init__(self, minutes: float, max_bytes: int) -> None:
        self._seconds, self._max_bytes = minutes * 60.0, max_bytes
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files: OrderedDict[str, StoredFile] = OrderedDict()

    def add(self, content: bytes, name: str) -> str:
        """Keeps a file; returns the name in its address.

        Args:
            content: The file.
            name: What a stranger calls it; no path is made of this.

        Raises:
            RequestError: It is larger than all files together may be.
        """
        self._forget_old()
        if len(content) > self._max_bytes:
            raise busy("no room for translated files", 60)
        while sum(each.num_bytes for each in self._files.values()) + len(content) > self._max_bytes:
            self._forget(next(iter(self._files)))
        token = secrets.token_urlsafe(32)
        if self._folder is None:
            # For this user alone.
            self._folder = tempfile.TemporaryDirectory(prefix="mtkit-serve-")
        path = Path(self._folder.name) / token
        path.write_bytes(content)
        safe = re.sub(r"[^\w.-]+", "_", name)[-_MAX_NAME:].lstrip(".") or "translation"
        address = f"{token}.{safe}"
        self._files[address] = StoredFile(
            path, safe, time.monotonic() + self._seconds, len(content)
        )
        return address

    def find(self, address: str) -> StoredFile | None:
        """Returns the file of an address; None if there is none, or no longer."""
        self._forget_old()
        return self._files.get(address)

    def close(self) -> None:
        """Deletes all of them."""
        self._files.clear()
        if self._folder is not None:
            self._folder.cleanup()

    def _forget_old(self) -> None:
        now = time.monotonic()
        for address in [key for key, each in self._files.items() if each.expires_at <= now]:
            self._forget(address)

    def _forget(self, address: str) -> None:
        self._files.pop(address).path.unlink(missing_ok=True)
