"""Files that a crash can't leave half written."""

import json
import os
import stat
from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.files import (
    digest,
    digest_file,
    read_json,
    reserve,
    write_atomically,
    writing_atomically,
)


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "facts.json"
    path.write_bytes(content)
    with pytest.raises(MtkitError, match=r"facts\.json: damaged"):
        read_json(path)


def test_a_file_is_written_whole_and_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "text"
    write_atomically(path, "für\r\n")
    write_atomically(path, "dich\n")
    assert path.read_bytes() == b"dich\n"
    assert list(path.parent.iterdir()) == [path]


def test_a_stream_replaces_a_file_when_it_ends(tmp_path: Path) -> None:
    path, folder = tmp_path / "text", tmp_path / "parts"
    folder.mkdir()
    path.write_text("old")
    with writing_atomically(path, folder=folder) as stream:
        stream.write(b"ne")
        stream.flush()
        [draft] = folder.iterdir()
        assert (path.read_text(), draft.read_text()) == ("old", "ne")
        stream.write(b"w")
    assert path.read_text() == "new"
    with pytest.raises(ZeroDivisionError), writing_atomically(path) as stream:
        stream.write(b"half" * (1 // 0))
    assert path.read_text() == "new"
    assert sorted(tmp_path.rglob("*")) == [folder, path]


def test_a_file_that_cannot_be_written_leaves_no_draft(tmp_path: Path) -> None:
    (tmp_path / "report.md").mkdir()
    with pytest.raises(OSError, match=r"report\.md"):
        write_atomically(tmp_path / "report.md", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]


def test_json_keeps_a_path_that_is_invalid_utf8(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    write_atomically(path, json.dumps({"folder": "ü\udcff"}, ensure_ascii=False))
    assert read_json(path) == {"folder": "ü\udcff"}
    assert len(digest({"folder": "ü\udcff"})) == 16


def test_space_is_set_aside_for_a_file_with_holes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as stream:
        stream.truncate(1_000_000)
    reserve(path)
    assert path.read_bytes() == bytes(1_000_000)
    # In units of 512 bytes, whatever the file system's own are.
    assert path.stat().st_blocks * 512 >= 1_000_000


def test_digests_depend_on_content_alone(tmp_path: Path) -> None:
    assert digest({"a": 1, "b": 2}) == digest(json.loads('{"b": 2, "a": 1}'))
    assert digest({"a": 1}) != digest({"a": 1.5})
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    # FIPS 180-2, appendix B.1: SHA-256 of "abc" begins so.
    assert digest_file(path) == "ba7816bf8f01cfea"


def test_a_device_and_a_pipe_are_written_into_and_stay(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="No such device") as caught:
        write_atomically(pipe, "nobody reads")
    assert caught.value.filename == str(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomically(pipe, "line\n")
        assert os.read(reader, 100) == b"line\n"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_full_device_is_named(tmp_path: Path) -> None:
    full = tmp_path / "full"
    try:
        os.mknod(full, 0o600 | stat.S_IFCHR, os.makedev(1, 7))
    except PermissionError:
        pytest.skip("only root makes devices")
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomically(full, "content")
    assert caught.value.filename == str(full)
    assert stat.S_ISCHR(full.stat().st_mode)
