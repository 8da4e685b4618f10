"""The listing of a folder in an object store, and atomic uploads to it.

New files are uploaded under their names, changed ones next to them. Then the listing, with each
file's size and SHA-256, is replaced, and only then the changed files. So the objects of a listing
are there at any moment, and a reader checks each file against it.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from mtkit.errors import MtkitError, shorten
from mtkit.files import parse_json
from mtkit.object_store import ask, check_size, find_validator, put_file
from mtkit.storage import Url, open_location

LISTING = ".mtkit-listing.json"
_PENDING = ".mtkit-pending"
_FORMAT = 1
_MAX_LISTING_BYTES, _MAX_FILES, _MAX_NAME = 32 << 20, 100_000, 1_024
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NUM_THREADS = 4
_MAX_ATTEMPTS = 3
_COPY_BYTES = 1 << 20


@dataclass(frozen=True)
class Entry:
    """A file in a listing.

    Attributes:
        sha256: Empty in a folder without a listing.
        version: The store's, in a folder without a listing.
        is_pending: Whether its content is still next to its name.
    """

    size: int
    sha256: str = ""
    version: str = ""
    is_pending: bool = field(default=False, compare=False)


Entries = dict[str, Entry]


class UnfinishedError(MtkitError):
    """A folder whose first upload hasn't finished."""


def read_listing(url: str) -> Entries | None:
    """Returns a folder's files by its listing; None without one."""

    def read(store: Any, path: str) -> bytes | None:
        store.invalidate_cache()
        try:
            size = store.info(path)["size"]
            return bytes(store.cat_file(path, start=0, end=min(size, _MAX_LISTING_BYTES + 1)))
        except FileNotFoundError:
            return None

    content = ask(f"{url}/{LISTING}", read)
    if content is None:
        return None
    damage = MtkitError(f"{url}/{LISTING}: damaged", "remove the folder, and upload it again")
    facts = parse_json(content, Path(LISTING)) if len(content) <= _MAX_LISTING_BYTES else None
    if not isinstance(facts, dict) or facts.get("format_version") != _FORMAT:
        raise damage
    if facts.get("is_complete") is not True:
        raise UnfinishedError(
            f"{url}: incomplete upload", "run the command that writes it again, or remove it"
        )
    files = facts.get("files")
    if not isinstance(files, dict):
        raise damage
    try:
        entries = {name: Entry(**entry) for name, entry in files.items()}
    except TypeError as error:
        raise damage from error
    _check_entries(url, entries)
    return entries


def find_files(url: str) -> Entries:
    """Returns the files of a folder without a listing; none if there is no such folder."""

    def find(store: Any, path: str) -> Entries:
        store.invalidate_cache()
        try:
            found = store.find(path, detail=True)
        except FileNotFoundError:
            return {}
        return {
            name[len(path) + 1 :]: Entry(facts["size"], version=find_validator(facts))
            for name, facts in found.items()
            if facts["type"] == "file"
            and name.startswith(f"{path}/")
            and "/." not in name[len(path) :]
        }

    entries = ask(url, find)
    _check_entries(url, entries)
    return entries


def _check_entries(url: str, entries: Mapping[str, Entry]) -> None:
    """Checks names and numbers from a store, which isn't trusted."""
    if len(entries) > _MAX_FILES:
        raise MtkitError(f"{url}: {len(entries):,} files, expected {_MAX_FILES:,} at most")
    for name, entry in entries.items():
        has_type = isinstance(entry.size, int) and isinstance(entry.version, str)
        if not has_type or entry.size < 0 or not _is_digest(entry.sha256) or not is_plain(name):
            shown = shorten(ascii(name), 80)
            raise MtkitError(f"{url}: the listing has an invalid entry, {shown}")


def _is_digest(text: object) -> bool:
    return text == "" or (isinstance(text, str) and bool(_DIGEST.fullmatch(text)))


def is_plain(name: str) -> bool:
    """Checks that a name is a relative path without hidden parts, `..` and control characters."""
    path = PurePosixPath(name)
    return (
        len(name) <= _MAX_NAME
        and name.isprintable()
        and "\\" not in name
        and bool(path.parts)
        and str(path) == name
        and not any(part.startswith((".", "/")) for part in path.parts)
    )


def list_files(folder: Path) -> dict[str, Path]:
    """Returns a local folder's files by their names in a listing, except hidden files and links."""
    found = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
    return {name: path for name, path in found.items() if is_plain(name)}


def download(url: str, name: str, entry: Entry, path: Path) -> None:
    """Downloads a file of a stored folder, checking its size and SHA-256."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    origin, sha256 = Url(f"{url}/{_object_of(name, entry)}"), hashlib.sha256()
    try:
        with open_location(origin) as stored, draft.open("wb") as stream:
            while block := stored.read(_COPY_BYTES):
                sha256.update(block)
                stream.write(block)
        size = draft.stat().st_size
        if size != entry.size or entry.sha256 not in ("", sha256.hexdigest()):
            raise MtkitError(
                f"{url}/{name}: {size:,} bytes that differ from the folder's listing, which has "
                f"{entry.size:,}: damaged, or replaced meanwhile",
                "run the same command again; if this persists, upload the folder again",
            )
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def upload(
    url: str,
    files: Mapping[str, Path],
    old: Entries | None,
    kept: Entries,
    *,
    before_commit: Callable[[Entries], None],
) -> None:
    """Replaces a stored folder's content by `kept` entries and the given files.

    `old` is its listing so far. Until the new one is written, readers see the old folder.
    `before_commit` is called with the new one before that.
    """
    _abort_uploads(url)
    if old is None:
        _write_listing(url, {}, is_complete=False)
    before = old or {}
    added = run_in_threads(lambda name: _upload_file(url, name, files[name], before), files)
    new = dict(sorted({**kept, **dict(zip(files, added, strict=True))}.items()))
    before_commit(new)
    _write_listing(url, new)
    pending = {_object_of(name, entry) for name, entry in [*before.items(), *new.items()]}
    if any(entry.is_pending for entry in new.values()):
        run_in_threads(lambda name: _commit_file(url, name, new[name]), new)
        new = {name: replace(entry, is_pending=False) for name, entry in new.items()}
        _write_listing(url, new)
    gone = (before.keys() - new.keys()) | {name for name in pending if name.startswith(_PENDING)}
    run_in_threads(lambda name: ask(f"{url}/{name}", _remove), gone)


def run_in_threads(work: Callable[[str], Any], names: Any) -> list[Any]:
    """Returns the results of `work` for each name, in order, from a thread pool."""
    with ThreadPoolExecutor(_NUM_THREADS) as threads:
        return list(threads.map(work, names))


def _object_of(name: str, entry: Entry) -> str:
    return f"{_PENDING}/{entry.sha256}" if entry.is_pending and entry.sha256 else name


def _upload_file(url: str, name: str, file: Path, old: Entries) -> Entry:
    """Uploads a file that may grow meanwhile, as logs do."""
    for _ in range(_MAX_ATTEMPTS):
        before = file.stat()
        with file.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        entry = Entry(before.st_size, sha256, is_pending=name in old)
        put_file(file, f"{url}/{_object_of(name, entry)}")
        after = file.stat()
        if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
            return entry
    raise MtkitError(
        f"{file}: changed while it was being uploaded to {url}", "run the command again"
    )


def _commit_file(url: str, name: str, entry: Entry) -> None:
    def copy(store: Any, path: str) -> None:
        root = path.removesuffix(f"/{name}")
        store.cp_file(f"{root}/{_object_of(name, entry)}", path)
        check_size(store, path, entry.size)

    if entry.is_pending:
        ask(f"{url}/{name}", copy)


def _write_listing(url: str, entries: Entries, *, is_complete: bool = True) -> None:
    files = {name: asdict(entry) for name, entry in entries.items()}
    facts = {"format_version": _FORMAT, "is_complete": is_complete, "files": files}
    content = json.dumps(facts, indent=1, ensure_ascii=False).encode()

    def write(store: Any, path: str) -> None:
        store.pipe_file(path, content)
        check_size(store, path, len(content))

    ask(f"{url}/{LISTING}", write)


def _remove(store: Any, path: str) -> None:
    with suppress(FileNotFoundError):
        store.rm_file(path)


def _abort_uploads(url: str) -> None:
    """Aborts multipart uploads that a killed process left below a folder of an S3 bucket."""

    def abort(store: Any, path: str) -> None:
        bucket, _, prefix = path.partition("/")
        # Few users may list them, and not every store can.
        with suppress(OSError):
            for each in store.list_multipart_uploads(bucket):
                if each["Key"].startswith(f"{prefix}/"):
                    store.abort_mpu(bucket, each["Key"], each["UploadId"])

    if url.startswith("s3://"):
        ask(url, abort)
