"""Replaces folders atomically by drafts, and removes folders."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from mtkit.errors import MtkitError, is_disk_full
from mtkit.files import find_drafted, name_draft, sync
from mtkit.locks import locked
from mtkit.units import format_memory


@contextmanager
def building(folder: Path, *, then: Callable[[Path], None] | None = None) -> Iterator[Path]:
    """Yields an empty draft folder that replaces `folder` when the block succeeds.

    If it fails, the draft is removed and `folder` stays as it was. Each builder has its own draft:
    if two build the same folder at once, the last to finish leaves its draft, whole. `then` is
    called with `folder` before others can replace it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    restore_retired(folder)
    _remove_abandoned_drafts(folder)
    draft = folder.with_name(name_draft(folder.name))
    # Held as long as the draft exists: it marks the draft as in use.
    with locked(draft):
        draft.mkdir()
        try:
            yield draft
            for path in (draft, *draft.rglob("*")):
                sync(path)
            commit_draft(draft, folder, then=then)
        except BaseException as error:
            fault = _locate_full_disk(error, draft, folder)
            # On a full disk, half of a checkpoint would keep it full.
            remove_folder(draft)
            if fault is not None:
                raise fault from error
            raise


def _locate_full_disk(error: BaseException, draft: Path, folder: Path) -> OSError | None:
    """Returns a full disk's error with file and sizes; None for other errors."""
    if not is_disk_full(error) or not isinstance(error, OSError):
        return None
    sizes = {path: path.stat() for path in draft.rglob("*") if path.is_file()}
    newest = max(sizes, key=lambda path: sizes[path].st_mtime_ns, default=draft)
    written = sum(status.st_size for status in sizes.values())
    free = shutil.disk_usage(draft).free
    code = error.errno or errno.ENOSPC
    return OSError(
        code,
        f"{os.strerror(code)}: {format_memory(written)} of {folder.name} were written, and "
        f"{format_memory(free)} were free",
        error.filename or str(folder / newest.relative_to(draft)),
    )


def commit_draft(draft: Path, folder: Path, *, then: Callable[[Path], None] | None = None) -> None:
    """Moves a finished draft to `folder`; after a crash the old one is there or can be restored."""
    with locked(folder):
        _restore_retired(folder)
        retired = _retired(folder)
        if folder.exists():
            folder.rename(retired)
        draft.rename(folder)
        sync(folder.parent)
        discard_folder(retired)
        if then is not None:
            then(folder)


def _remove_abandoned_drafts(folder: Path) -> None:
    """Removes drafts of a folder whose builders were killed."""
    own = find_drafted(name_draft(folder.name))
    for path in list(folder.parent.iterdir()):
        draft = path.with_name(path.name.removesuffix(".lock"))
        if own and find_drafted(draft.name) == own:
            # Another user's draft stays.
            with suppress(BlockingIOError, PermissionError), locked(draft, waits=False) as is_held:
                if is_held:
                    remove_folder(draft)


def restore_retired(folder: Path) -> None:
    """Restores a folder that a kill between two renames of `building` left moved away."""
    if _retired(folder).exists():
        # A process between the two renames holds the lock.
        with locked(folder):
            _restore_retired(folder)


def _restore_retired(folder: Path) -> None:
    retired = _retired(folder)
    if folder.exists():
        discard_folder(retired)
    elif retired.exists():
        retired.rename(folder)


def _retired(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.retired")


def discard_folder(folder: Path) -> None:
    """Removes a folder; a kill midway leaves no partial folder under its name."""
    discarded = folder.with_name(f".{folder.name.strip('.')}.discarded")
    remove_folder(discarded)
    if folder.exists():
        folder.rename(discarded)
        remove_folder(discarded)


def check_new(folder: Path, hint: str = "name a new folder with --output") -> None:
    """Checks that a folder can be made: there is nothing at its path, or an empty folder."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir() or any(folder.iterdir()):
        raise MtkitError(f"{folder}: already exists", hint)


def remove_folder(folder: Path) -> None:
    """Removes a folder or file of mtkit's, if it is there; a link is removed, not followed."""
    if folder.is_dir() and not folder.is_symlink():
        for path in folder.iterdir():
            remove_folder(path)
        folder.rmdir()
    else:
        folder.unlink(missing_ok=True)


LOCK_NAME = "mtkit"
"""What `exclusive_lock` locks in its folder."""


@contextmanager
def exclusive_lock(folder: Path, what: str) -> Iterator[None]:
    """Keeps other processes from the same work in an existing folder while the block runs.

    See `locked`. Raises MtkitError if another process holds the lock.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / LOCK_NAME, waits=False))
        except BlockingIOError as error:
            raise MtkitError(
                f"{folder}: {what} can't start: another mtkit command is running here",
                "wait for it to finish, or choose another folder with --workspace",
            ) from error
        yield
