"""Writes files atomically, reads untrusted files, and digests them.

A model folder or a workspace may come from anywhere, with a link out of it, a pipe that never
ends, or deeply nested JSON. Each is rejected before it costs memory or time.
"""

import errno
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from mtkit.errors import MtkitError, shorten

if TYPE_CHECKING:
    from pydantic import ValidationError


_MAX_JSON_BYTES = 16 << 20
_MAX_DRAFTED = 200
"""Bytes of a name that its draft's name repeats: names have at most 255."""
_DRAFT = re.compile(r"\.(.+)\.\d+-[0-9a-f]{8}\.draft", re.DOTALL)
_CANT_RESERVE = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
"""Errors of file systems that can't reserve space."""


def read_json(path: Path, *, max_bytes: int = _MAX_JSON_BYTES, hint: str = "") -> dict[str, Any]:
    """Returns the JSON object in a file that mtkit wrote; NaN and infinities become None.

    A file over `max_bytes` is rejected, because its objects take many times the memory. `hint` says
    what to do with a damaged file.
    """
    content = parse_json(read_file(path, max_bytes=max_bytes), path, hint)
    if not isinstance(content, dict):
        raise MtkitError(f"{path}: damaged: expected a JSON object", hint)
    return content


def check_format(facts: Mapping[str, Any], path: Path, expected: int, hint: str) -> None:
    """Checks `format_version` of a file that mtkit wrote; `hint` is how to recreate it."""
    found = facts.get("format_version")
    if isinstance(found, int) and found > expected:
        raise MtkitError(
            f"{path}: format {shorten(str(found), 20)}, but this version of mtkit reads {expected}",
            "update mtkit, in the folder that holds its code: git pull, then pip install .",
        )
    if found != expected:
        if found is None and "model_type" in facts:
            raise MtkitError(
                f"{path}: a model of transformers, not of mtkit",
                f"mtkit import {path.parent} --output NEW",
            )
        raise MtkitError(f"{path}: made by an unreleased mtkit, or by another program", hint)


def as_json_text(content: object, *, is_ascii: bool = False) -> str:
    """Returns content as indented JSON with a final line feed; rejects NaN and infinity."""
    text = json.dumps(content, indent=2, ensure_ascii=is_ascii, allow_nan=False)
    return f"{text}\n"


def name_draft(name: str) -> str:
    """Returns a new name for the draft of a file or folder; see `find_drafted`."""
    short = name
    while len(os.fsencode(short)) > _MAX_DRAFTED:
        short = short[:-1]
    # Processes on different machines may have the same id.
    return f".{short}.{os.getpid()}-{secrets.token_hex(4)}.draft"


def find_drafted(name: str) -> str:
    """Returns the name whose draft has a name, cut if it is long; empty if it is no draft's."""
    found = _DRAFT.fullmatch(name)
    return found[1] if found else ""


def write_atomically(path: Path, content: str | bytes) -> None:
    r"""Writes a file atomically: a crash or an error leaves the old one.

    Bytes of a path that are invalid UTF-8 are written as `\udcff`, which JSON restores.
    """
    if isinstance(content, str):
        content = content.encode("utf-8", errors="backslashreplace")
    with writing_atomically(path) as stream:
        stream.write(content)


def write_lines(path: Path, lines: Iterable[str]) -> bytes:
    """Writes lines into a file as `write_atomically` does; returns its bytes."""
    content = "".join(f"{line}\n" for line in lines).encode("utf-8", errors="backslashreplace")
    write_atomically(path, content)
    return content


@contextmanager
def writing_atomically(path: Path, *, folder: Path | None = None) -> Iterator[IO[bytes]]:
    """Yields a stream whose bytes replace a file when the block succeeds; see `write_atomically`.

    The draft is next to the file, or in a folder of the same file system. A device or a pipe isn't
    replaced: the bytes go into it.
    """
    stays = _is_special(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = (folder or path.parent) / name_draft(path.name)
    try:
        with _open_special(path) if stays else draft.open("wb") as stream:
            if path.exists() and not stays:
                # The new file is as private as the old one.
                with suppress(OSError):
                    draft.chmod(stat.S_IMODE(path.stat().st_mode))
            yield stream
            stream.flush()
            if stays:
                return
            os.fsync(stream.fileno())
        draft.replace(path)
    except BaseException as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(draft)):
            # The system names the draft, or no file if the disk is full.
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    sync(path.parent)


def _is_special(path: Path) -> bool:
    # A stream's entry may be a link to a regular file, which isn't replaced either.
    is_stream = path.is_relative_to("/dev") and path.is_symlink()
    return is_stream or (path.exists() and not path.is_file() and not path.is_dir())


def _open_special(path: Path) -> IO[bytes]:
    # Non-blocking: a pipe that nobody reads is an error instead of an endless wait.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "wb")


def check_not_input(output: Path, inputs: Iterable[Path], option: str = "--output") -> None:
    """Checks that a file to write isn't one that a command reads."""
    for each in inputs:
        if output.exists() and each.exists() and output.samefile(each):
            raise MtkitError(
                f"{output}: would overwrite a file that this command reads",
                f"name another file with {option}",
            )


def sync(path: Path) -> None:
    """Writes a file's bytes, or a folder's entries, from the system's buffers to the disk."""
    # Not every system and file system can do that for a folder.
    with suppress(OSError) if path.is_dir() else nullcontext():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def reserve(path: Path) -> None:
    """Reserves disk space for a file, if the system can; raises OSError on a full disk.

    Filling the holes of a memory-mapped file on a full disk would kill the process.
    """
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as stream:
            try:
                os.posix_fallocate(stream.fileno(), 0, path.stat().st_size)
            except OSError as error:
                if error.errno not in _CANT_RESERVE:
                    # The system doesn't name the file.
                    raise OSError(error.errno, error.strerror, str(path)) from error


def digest(content: Any) -> str:
    """Returns a short digest of anything JSON can express, the same on every machine."""
    canonical = json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False)
    # It may contain paths that are invalid UTF-8.
    return hashlib.sha256(canonical.encode(errors="surrogateescape")).hexdigest()[:16]


def digest_bytes(content: bytes) -> str:
    """Returns a short digest of bytes; equals `digest_file` of a file with these bytes."""
    return hashlib.sha256(content).hexdigest()[:16]


@cache
def digest_package() -> str:
    """Returns a short digest of mtkit's own source, which two installations may share."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return digest([[path.name, digest_file(path)] for path in files])


def digest_file(path: Path) -> str:
    """Returns a short digest of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:16]


_MAX_FAULT_CHARACTERS = 200
"""Maximum length of a quoted fault, in characters."""


def check_file(path: Path, *, inside: Path | None = None) -> int:
    """Returns the size of a regular file, in bytes.

    With all links followed, the file must be in `inside`, by default the folder of its path. Raises
    FileNotFoundError if it is missing, and MtkitError if it is elsewhere or not a regular file.
    """
    try:
        status = path.stat()
        resolved = path.resolve()
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, error.strerror, str(path)) from error
    if not resolved.is_relative_to((inside if inside is not None else path.parent).resolve()):
        raise MtkitError(
            f"{path}: a link out of its folder, to {resolved}; such links aren't followed",
            "if you trust it, copy the folder with the files it links to: cp -rL FOLDER NEW",
        )
    if not stat.S_ISREG(status.st_mode):
        raise MtkitError(f"{path}: not a regular file")
    return status.st_size


def read_file(path: Path, *, max_bytes: int, inside: Path | None = None) -> bytes:
    """Returns the bytes of a regular file of at most `max_bytes`; raises as `check_file`."""
    num_bytes = check_file(path, inside=inside)
    if num_bytes > max_bytes:
        raise MtkitError(f"{path}: {num_bytes:,} bytes, expected {max_bytes:,} at most")
    return path.read_bytes()


def parse_json(content: bytes, path: Path, hint: str = "") -> Any:
    """Returns parsed JSON; NaN and infinities, which aren't JSON, become None."""
    try:
        return json.loads(content.decode("utf-8"), parse_constant=lambda _: None)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise MtkitError(f"{path}: damaged, invalid JSON: {error}", hint) from error
    except RecursionError as error:
        raise MtkitError(f"{path}: damaged: nested too deeply", hint) from error
    except ValueError as error:
        raise MtkitError(f"{path}: damaged: a number with too many digits", hint) from error


@contextmanager
def reporting_faults(origin: object, hint: str = "") -> Iterator[None]:
    """Raises an `MtkitError` if what is read from a file isn't what the block expects."""
    from pydantic import ValidationError  # noqa: PLC0415

    try:
        yield
    except ValidationError as error:
        raise MtkitError(f"{origin}: {describe_fault(error)}", hint) from error


def describe_fault(error: "ValidationError") -> str:
    """Returns the first fault that validation found in a file, and its key."""
    fault = error.errors(include_url=False, include_input=False)[0]
    key = ".".join(str(step) for step in fault["loc"])
    message = f"{key}: {fault['msg']}" if key else str(fault["msg"])
    return shorten(message, _MAX_FAULT_CHARACTERS)
