"""Answers cached on disk, so that no answered request is sent again."""

import hashlib
import json
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mtkit.errors import MtkitError

_FILE = "answers.sqlite"
_KEPT = 0.9
"""Share of the maximum size that remains after an eviction."""


class AnswerCache:
    """Answers by their requests, in a folder; threads and processes may share it.

    Entries survive `kill -9`.

    Args:
        folder: Created if missing, accessible to its owner only.
        max_bytes: Maximum size of all answers.

    Raises:
        MtkitError: The folder can't be written, or isn't a cache.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._lock = threading.Lock()
        with self._explaining():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                folder / _FILE, timeout=60.0, isolation_level=None, check_same_thread=False
            )
            weakref.finalize(self, self._connection.close)
            # Commits survive the end of the process without waiting for the disk.
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS answers "
                "(number INTEGER PRIMARY KEY, request TEXT UNIQUE, answer TEXT)"
            )
            self._num_bytes = self._measure()

    def find(self, request: str) -> Any:
        """Returns the answer to a request; None without one."""
        with self._lock, self._explaining():
            row = self._connection.execute(
                "SELECT answer FROM answers WHERE request = ?", (request,)
            ).fetchone()
            return None if row is None else json.loads(row[0])

    def put(self, request: str, answer: object) -> None:
        """Caches an answer; evicts the oldest ones beyond the maximum size."""
        text = json.dumps(answer)
        with self._lock, self._explaining():
            self._connection.execute(
                "INSERT OR REPLACE INTO answers (request, answer) VALUES (?, ?)", (request, text)
            )
            self._num_bytes += len(text)
            if self._num_bytes > self._max_bytes:
                self._shrink()

    def _measure(self) -> int:
        total = self._connection.execute("SELECT TOTAL(LENGTH(answer)) FROM answers").fetchone()
        return int(total[0])

    def _shrink(self) -> None:
        numbers = self._connection.execute("SELECT number, LENGTH(answer) FROM answers")
        surplus = self._measure() - int(_KEPT * self._max_bytes)
        last = 0
        for number, length in numbers:
            if surplus <= 0:
                break
            last, surplus = number, surplus - length
        self._connection.execute("DELETE FROM answers WHERE number <= ?", (last,))
        self._num_bytes = self._measure()

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, ValueError) as error:
            raise MtkitError(
                f"{self._folder}: {error}",
                f"free some space, or delete the cache: rm -r {self._folder}",
            ) from error


def make_cache_key(*parts: object) -> str:
    """Returns a request's cache key: a digest of everything that its answer depends on."""
    text = json.dumps(parts, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
