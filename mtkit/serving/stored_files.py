"""Translated files, kept for a while under unguessable names."""

import asyncio
import re
import secrets
import shutil
import tempfile
import threading
import unicodedata
from collections import OrderedDict
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from mtkit.console import warn
from mtkit.locks import locked
from mtkit.serving.request_errors import busy

_MAX_NAME = 100
_PREFIX = "mtkit-serve-"
_RETRY_SECONDS = 60
_BLOCK_BYTES = 4_096
"""Minimum size on disk."""


@dataclass(frozen=True)
class StoredFile:
    """A translated file, with its download name and the timer that deletes it."""

    path: Path
    name: str
    expiry: asyncio.TimerHandle
    num_bytes: int


class FileStore:
    """Keeps files in a temporary folder, which is deleted with the server.

    At most `max_bytes` of all files together; the oldest are evicted. The folders of servers that
    were killed are deleted when the next one starts.
    """

    def __init__(self, minutes: float, max_bytes: int) -> None:
        self._seconds, self._max_bytes = minutes * 60.0, max_bytes
        self._folder: Path | None = None
        self._held = ExitStack()
        self._files: OrderedDict[str, StoredFile] = OrderedDict()
        self._num_bytes = 0
        self._lock = threading.Lock()
        for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            # Folders of running servers and of other users are kept.
            with suppress(OSError), locked(folder, waits=False) as is_held:
                if is_held:
                    # Unlike remove_folder, it is safe where others may swap folders for links.
                    shutil.rmtree(folder)

    async def add(self, content: bytes, name: str) -> str:
        """Keeps a file for some minutes; returns the name in its address.

        `name` is untrusted and never part of a path.

        Raises:
            RequestError: The file is larger than the store, or the disk is full.
        """
        if len(content) > self._max_bytes:
            raise busy("no room for translated files", _RETRY_SECONDS)
        num_bytes = max(len(content), _BLOCK_BYTES)
        self._make_room(num_bytes)
        token = secrets.token_urlsafe(32)
        try:
            path = await asyncio.to_thread(self._write, token, content)
        except OSError as error:
            warn(f"a translated file can't be kept: {error.strerror or error}")
            raise busy("no room for translated files", _RETRY_SECONDS) from error
        # Other files may have arrived meanwhile.
        self._make_room(num_bytes)
        safe = _make_safe(name)
        address = f"{token}.{safe}"
        loop = asyncio.get_running_loop()
        expiry = loop.call_later(self._seconds, self._forget, address)
        self._files[address] = StoredFile(path, safe, expiry, num_bytes)
        self._num_bytes += num_bytes
        return address

    def find(self, address: str) -> StoredFile | None:
        """Returns the file of an address; None if it is missing or expired."""
        found = self._files.get(address)
        return found if found is not None and found.path.exists() else None

    def close(self) -> None:
        """Deletes all files."""
        for address in list(self._files):
            self._forget(address)
        self._held.close()
        self._folder = None

    def _make_room(self, num_bytes: int) -> None:
        while self._files and self._num_bytes + num_bytes > self._max_bytes:
            self._forget(next(iter(self._files)))

    def _write(self, token: str, content: bytes) -> Path:
        """Writes a file; nothing remains after an error."""
        with self._lock:
            # A cleaner of temporary folders may have deleted it.
            if self._folder is None or not self._folder.is_dir():
                self._held.close()
                # Only for this user.
                folder = tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
                self._folder = Path(self._held.enter_context(folder))
                # The lock ends with the process, however that ends.
                self._held.enter_context(locked(self._folder))
            path = self._folder / token
        try:
            path.write_bytes(content)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        return path

    def _forget(self, address: str) -> None:
        stored = self._files.pop(address, None)
        if stored is not None:
            stored.expiry.cancel()
            self._num_bytes -= stored.num_bytes
            stored.path.unlink(missing_ok=True)


def _make_safe(name: str) -> str:
    """Returns a file's name with letters, their marks, digits, `_`, `.` and `-` alone."""
    text = unicodedata.normalize("NFC", name)
    kept = (
        each if each in "_.-" or unicodedata.category(each)[0] in "LMN" else " " for each in text
    )
    return re.sub(" +", "_", "".join(kept))[-_MAX_NAME:].lstrip(".") or "translation"
