"""Local copies of folders in object stores: fetched into a bounded cache, and uploaded again.

A command works in the copy. Its changes stay there until they are uploaded, even after a crash; a
copy with changes isn't evicted.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from mtkit.console import say, warn
from mtkit.errors import MtkitError
from mtkit.files import as_json_text, digest, read_json, write_atomically
from mtkit.folders import LOCK_NAME, exclusive_lock, remove_folder
from mtkit.locks import locked
from mtkit.object_store import check_url, put_file
from mtkit.storage import Location, Url
from mtkit.stored_listing import (
    Entries,
    Entry,
    UnfinishedError,
    download,
    find_files,
    list_files,
    read_listing,
    run_in_threads,
    upload,
)
from mtkit.units import format_memory, plural

_STATE = "state.json"
_LIMIT = "MTKIT_CACHE_BYTES"
_MAX_STATE_BYTES = 1 << 28
_HELD = ExitStack()
"""Descriptors of the copies in use, until the process ends."""
Stamp = tuple[int, int]
"""A file's size and modification time."""


@dataclass
class _Copy:
    """A local copy and what is known of it.

    Attributes:
        base: The store's files when they were last fetched or put.
        stamps: Those of the local files; None while a file is being fetched.
        proposed: `base` and `stamps` after the upload in progress.
    """

    url: str
    entry: Path
    base: Entries
    stamps: dict[str, Stamp | None]
    proposed: tuple[Entries, dict[str, Stamp | None]]

    @classmethod
    def of(cls, url: str, entry: Path) -> "_Copy":
        """Returns the copy in a folder of the cache, which may be empty."""
        if not (entry / _STATE).is_file():
            return cls(url, entry, {}, {}, ({}, {}))
        facts = read_json(entry / _STATE, max_bytes=_MAX_STATE_BYTES)
        known, proposed = (
            (
                {name: Entry(**each) for name, each in base.items()},
                {name: stamp and (stamp[0], stamp[1]) for name, stamp in stamps.items()},
            )
            for base, stamps in (facts["known"], facts["proposed"])
        )
        return cls(facts["url"], entry, *known, proposed)

    @property
    def folder(self) -> Path:
        """Where commands work."""
        name = self.url.rpartition("/")[2]
        return self.entry / (re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:80] or "folder")

    def save(self) -> None:
        """Writes the state; the file's time is that of the last use."""
        known, proposed = (
            ({name: asdict(each) for name, each in base.items()}, stamps)
            for base, stamps in ((self.base, self.stamps), self.proposed)
        )
        facts = {"url": self.url, "known": known, "proposed": proposed}
        write_atomically(self.entry / _STATE, as_json_text(facts))

    def find_changes(self) -> tuple[dict[str, Path], set[str]]:
        """Returns the files written since the last transfer, and the names of removed ones."""
        files = list_files(self.folder)
        fetching = {name for name, stamp in self.stamps.items() if stamp is None}
        written = {
            name: path
            for name, path in files.items()
            if name not in fetching and self.stamps.get(name) != _stamp(path)
        }
        return written, self.stamps.keys() - files.keys() - fetching

    def fetch(self, remote: Entries, parts: Sequence[str]) -> None:
        """Makes the files of some subfolders, and those outside of any, equal to the store's."""
        stale = {name for name in self.stamps if remote.get(name) != self.base.get(name)}
        wanted = {
            name: entry
            for name, entry in remote.items()
            if not parts or "/" not in name or name.startswith(tuple(f"{part}/" for part in parts))
        }
        missing = [n for n in wanted if n in stale or self.stamps.get(n) is None]
        self.base = remote
        self.stamps |= dict.fromkeys([*stale, *missing])
        _evict_copies(self.entry, sum(wanted[name].size for name in missing))
        self.save()
        for name in stale - set(missing):
            (self.folder / name).unlink(missing_ok=True)
            del self.stamps[name]
        if missing:
            num_bytes = format_memory(sum(wanted[name].size for name in missing))
            say(f"fetching {plural(len(missing), 'file')}, {num_bytes}, from {self.url}")

        def fetch_file(name: str) -> None:
            download(self.url, name, wanted[name], self.folder / name)
            self.stamps[name] = _stamp(self.folder / name)

        try:
            run_in_threads(fetch_file, missing)
        finally:
            self.save()

    def check_base(self, remote: Entries) -> None:
        """Checks that the store's files are those that the changes here began with."""
        if remote == self.proposed[0] != self.base:
            # An upload was killed after its listing was written.
            self.base, self.stamps = self.proposed
        if remote != self.base and any(self.find_changes()):
            raise MtkitError(
                f"{self.url}: was changed by another process, and its copy {self.folder} has "
                "changes, too",
                f"to use the store's, remove {self.entry}; to keep the changes, copy {self.folder} "
                "first",
            )

    def put(self) -> None:
        """Puts what was changed here into the store."""
        if not any(self.find_changes()):
            return
        remote = _read_remote(self.url, is_read=False)
        self.check_base(remote or {})
        # Equal, but for what is pending.
        self.base = remote or {}
        written, removed = self.find_changes()
        stamps = {name: stamp for name, stamp in self.stamps.items() if name not in removed}
        stamps |= {name: _stamp(path) for name, path in written.items()}
        kept = {n: e for n, e in self.base.items() if n not in written and n not in removed}

        def remember(new: Entries) -> None:
            self.proposed = new, stamps
            self.save()

        upload(self.url, written, remote, kept, before_commit=remember)
        self.base, self.stamps = self.proposed
        self.save()
        size = format_memory(sum(path.stat().st_size for path in written.values()))
        say(f"uploaded {plural(len(written), 'file')}, {size}, to {self.url}")


def fetch_folder(url: Location) -> Path:
    """Returns a folder on this machine: itself, or the copy of a store's.

    A folder inside one with a listing, such as a workspace's model, is fetched through it.
    """
    return _fetch(url, (), is_read=True) if isinstance(url, Url) else url


@contextmanager
def working_copy(
    url: Location, parts: Sequence[str] = (), *, is_new: bool = False
) -> Iterator[Path]:
    """Yields a folder to work in: itself, or a store's copy, which is put back afterwards.

    It is also put back after an error. Of subfolders only `parts` are fetched, or all. With
    `is_new` there must be nothing at the URL.
    """
    if not isinstance(url, Url):
        yield url
        return
    folder = _fetch(url, parts, is_read=False, is_new=is_new)
    try:
        yield folder
    except BaseException:
        put_or_warn(folder)
        raise
    put_changes(folder)


@contextmanager
def working_file(url: Location) -> Iterator[Path]:
    """Yields a file to write on this machine: itself, or one that is then put into a store.

    After an error nothing is uploaded, and the file stays.
    """
    if not isinstance(url, Url):
        yield url
        return
    check_url(url)
    path = _find_cache().with_name("files") / digest(url) / url.name
    path.parent.mkdir(parents=True, exist_ok=True)
    yield path
    try:
        put_file(path, url)
    except MtkitError as error:
        raise MtkitError(error.message, f"{error.hint}; the finished file is in {path}") from error
    remove_folder(path.parent)


def put_changes(folder: Path) -> None:
    """Uploads a copy's changes to its store; does nothing for other folders."""
    entry = folder.absolute().parent
    if entry.parent == _find_cache() and (entry / _STATE).is_file():
        try:
            with locked(entry):
                _Copy.of("", entry).put()
        except MtkitError as error:
            kept = f"{error.hint}; what isn't uploaded yet is kept in {folder}"
            raise MtkitError(error.message, kept) from error


def put_or_warn(folder: Path) -> None:
    """Does the same; a failure is only a warning, because the copy keeps its changes."""
    try:
        put_changes(folder)
    except MtkitError as error:
        warn(f"{error.message}: {error.hint}")


def _fetch(url: str, parts: Sequence[str], *, is_read: bool, is_new: bool = False) -> Path:
    check_url(url)
    url = url.rstrip("/")
    parent, _, name = url.rpartition("/")
    if is_read and parent.count("/") > 2 and read_listing(url) is None:
        around = read_listing(parent) or {}
        if any(each.startswith(f"{name}/") for each in around):
            return _fetch(parent, (name,), is_read=True) / name
    remote = _read_remote(url, is_read=is_read)
    if (is_read or parts) and remote is None:
        raise MtkitError(f"{url}: no such folder, or an empty one", "is the URL right?")
    if is_new and remote:
        raise MtkitError(f"{url}: already exists", "name a new folder with --output")
    entry = _find_cache() / digest(url)
    entry.parent.mkdir(parents=True, exist_ok=True)
    with locked(entry):
        if is_new:
            remove_folder(entry)
        copy = _Copy.of(url, entry)
        copy.folder.mkdir(parents=True, exist_ok=True)
        _hold(entry)
        copy.check_base(remote or {})
        copy.fetch(remote or {}, parts)
    return copy.folder


def _read_remote(url: str, *, is_read: bool) -> Entries | None:
    """Returns the files of a stored folder; None if there are none, or for a first upload."""
    try:
        listed = read_listing(url)
    except UnfinishedError:
        if is_read:
            raise
        return None
    return listed if listed is not None else find_files(url) or None


def _find_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "mtkit" / "folders"


def _stamp(path: Path) -> Stamp:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _hold(entry: Path) -> None:
    """Keeps a copy from being removed until this process ends; see `exclusive_lock`."""
    _HELD.enter_context(locked(entry / LOCK_NAME, is_shared=True))


def _evict_copies(entry: Path, num_bytes: int) -> None:
    """Evicts the least recently used copies until `num_bytes` more fit."""
    sizes = {each: _measure(each) for each in entry.parent.iterdir() if (each / _STATE).is_file()}
    used = sum(sizes.values())
    free = shutil.disk_usage(entry.parent).free
    limit = _read_limit((free + used) // 2)
    needed = num_bytes + sizes.pop(entry, 0)
    for other in sorted(sizes, key=lambda each: (each / _STATE).stat().st_mtime_ns):
        if needed + sum(sizes.values()) <= limit:
            break
        with (
            suppress(MtkitError, BlockingIOError),
            locked(other, waits=False),
            exclusive_lock(other, "removal"),
        ):
            if not any(_Copy.of("", other).find_changes()):
                remove_folder(other)
                del sizes[other]
    if needed + sum(sizes.values()) > limit:
        raise MtkitError(
            f"{entry.parent}: {format_memory(needed)} and the copies in use exceed the "
            f"cache's limit of {format_memory(limit)}",
            f"give it more bytes: {_LIMIT}=...; or another disk: XDG_CACHE_HOME=FOLDER",
        )


def _read_limit(default: int) -> int:
    text = os.environ.get(_LIMIT, "")
    if text and not text.isdecimal():
        raise MtkitError(f"{_LIMIT}={text}: expected a number of bytes")
    return int(text) if text else default


def _measure(entry: Path) -> int:
    return sum(path.stat().st_size for path in list_files(_Copy.of("", entry).folder).values())
