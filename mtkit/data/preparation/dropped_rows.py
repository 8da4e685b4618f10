"""The list of dropped rows, each with the reason: `data/dropped.tsv.zst`.

A stage that drops rows writes a list into its folder, and `mtkit prepare` joins the lists: zstd
frames may follow each other in a file.
"""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from mtkit.data.preparation.text_store import LINE_COLUMN
from mtkit.digests import digest_file

DROPPED_FILE = "dropped.tsv.zst"
HEADER = ("filter", "file", "line")
"""Columns before those of the text."""
_SEPARATORS = str.maketrans("\t\n\r", "   ")


def pack_rows(rows: Iterable[Sequence[object]]) -> bytes:
    """Returns rows as tab-separated lines in a zstd frame; empty if there are none."""
    lines = ["\t".join(str(value).translate(_SEPARATORS) for value in row) for row in rows]
    if not lines:
        return b""
    text = "\n".join([*lines, ""]).encode(errors="replace")
    return bytes(pa.compress(text, codec="zstd", asbytes=True))


def pack_stored(
    reason: str, file: str, rows: pa.RecordBatch | pa.Table, columns: Sequence[str]
) -> bytes:
    """Returns rows of a text store that were dropped for a reason, as `pack_rows` does."""
    found = rows.select([LINE_COLUMN, *columns]).to_pydict()
    return pack_rows((reason, file, *row) for row in zip(*found.values(), strict=True))


def append_dropped(folder: Path, frame: bytes) -> None:
    """Adds a frame from `pack_rows` to a stage's list."""
    if frame:
        with (folder / DROPPED_FILE).open("ab") as stream:
            stream.write(frame)


def digest_files(folder: Path) -> list[str]:
    """Returns the digests of a stage's files by name, without subfolders and this list."""
    files = (path for path in sorted(folder.iterdir()) if path.is_file())
    return [digest_file(path) for path in files if path.name != DROPPED_FILE]


def join_dropped(stages: Iterable[Path], folder: Path) -> None:
    """Writes the lists of some stages' folders, where they have one, into a single one."""
    with (folder / DROPPED_FILE).open("wb") as joined:
        for path in (stage / DROPPED_FILE for stage in stages):
            if path.is_file():
                with path.open("rb") as stream:
                    shutil.copyfileobj(stream, joined)
