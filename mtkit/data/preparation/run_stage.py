"""Runs stages of preparation: finished work is kept, work with changed inputs is repeated."""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from rich.text import Text

from mtkit.console import open_console, say
from mtkit.errors import MtkitError
from mtkit.files import read_json, write_atomically
from mtkit.folders import building, remove_folder

Part = TypeVar("Part")

_SECONDS_BETWEEN_LINES = 30.0
_RECORD_FILE = "stage.json"
Facts = Mapping[str, Any]
"""The findings of a stage, in a form that JSON allows; see `facts.py`."""


def show_progress(
    parts: Iterable[tuple[int, Part]], what: str, unit: str = "pair"
) -> Iterator[Part]:
    """Yields each part of a stage's work, and shows how many rows are done and how fast.

    Parts come with their number of rows; a row is a `unit`.
    """
    console = open_console()
    started_at = shown_at = time.monotonic()
    num_rows = 0
    status = console.status(Text(f"{what} ...")) if console.is_terminal else None
    if status is not None:
        status.start()
    try:
        for count, part in parts:
            yield part
            num_rows += count
            now = time.monotonic()
            text = f"{what}: {num_rows:,} {unit}s, {num_rows / (now - started_at):,.0f} per second"
            if status is not None:
                status.update(Text(text))
            elif now - shown_at > _SECONDS_BETWEEN_LINES:
                shown_at = now
                say(text)
    finally:
        if status is not None:
            status.stop()


def run_stage(
    folder: Path, earlier: Path, key: str, build: Callable[[Path], Facts]
) -> tuple[Any, bool]:
    """Returns a stage's facts, and whether it was done now, not reused.

    A stage is whole or missing, so that an interrupted preparation continues with the stages it
    finished. A stage in `folder` or `earlier` with the same key is reused; otherwise `build` fills
    an empty folder and returns the facts.
    """
    for found in (folder, earlier):
        record = read_record(found)
        if record is not None and record["key"] == key:
            if found != folder:
                _link_folder(found, folder)
            return record["facts"], False
    with building(folder) as unfinished:
        facts = build(unfinished)
        record = {"key": key, "facts": facts, "files": _list_files(unfinished)}
        text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
        write_atomically(unfinished / _RECORD_FILE, text + "\n")
    return facts, True


def read_record(folder: Path) -> dict[str, Any] | None:
    """Returns a finished stage's key and facts; None if it isn't finished and whole."""
    path = folder / _RECORD_FILE
    try:
        record = read_json(path) if path.is_file() else None
    except MtkitError:
        return None
    return record if record is not None and record.get("files") == _list_files(folder) else None


def _list_files(folder: Path) -> dict[str, int]:
    """Returns the size of each file of a stage, except its record."""
    return {
        str(path.relative_to(folder)): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != _RECORD_FILE
    }


def _link_folder(origin: Path, folder: Path) -> None:
    """Creates a folder that shares another's files, which never change once written."""
    with building(folder) as unfinished:
        for path in sorted(origin.rglob("*")):
            target = unfinished / path.relative_to(origin)
            if path.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            else:
                _link(path, target)


def _link(path: Path, target: Path) -> None:
    try:
        os.link(path, target)
    except OSError:
        # A file system without links.
        shutil.copyfile(path, target)


def clear_stages(draft: Path, names: tuple[str, ...]) -> None:
    """Removes everything in a draft folder except finished stages with these names."""
    if draft.is_dir():
        for path in draft.iterdir():
            if path.name not in names:
                if path.is_dir():
                    remove_folder(path)
                else:
                    path.unlink()
