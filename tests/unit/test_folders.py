"""Folders that a draft takes the place of, whatever is killed and whoever builds at once."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.files import write_atomically
from mtkit.folders import building, exclusive_lock, remove_folder


def test_a_folder_takes_its_place_only_when_it_is_done(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    with building(folder) as draft:
        (draft / "version").write_text("old")
    with pytest.raises(ZeroDivisionError):
        _fail_while_building(folder)
    assert (folder / "version").read_text() == "old"
    with building(folder) as draft:
        assert list(draft.iterdir()) == []
        (draft / "version").write_text("newer")
    assert (folder / "version").read_text() == "newer"
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left on device"), OSError("1528 requested and 404 written")],
)
def test_a_full_disk_names_the_file_and_what_there_was(tmp_path: Path, error: OSError) -> None:
    with pytest.raises(OSError, match=r"No space left .* 3\.0 KiB of data .* free") as caught:
        _fill_disk(tmp_path / "data", error)
    assert caught.value.filename == str(tmp_path / "data" / "second.npy")
    assert list(tmp_path.iterdir()) == []


def _fill_disk(folder: Path, error: OSError) -> None:
    with building(folder) as draft:
        (draft / "first.npy").write_bytes(bytes(1024))
        os.utime(draft / "first.npy", (0, 0))
        (draft / "second.npy").write_bytes(bytes(2048))
        raise error


def test_a_kill_between_the_renames_loses_nothing(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "model"
    with building(folder) as draft:
        (draft / "version").write_text("old")
    rename = Path.rename

    def killed(path: Path, target: Path) -> Path:
        if path.name.endswith(".draft"):
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(KeyboardInterrupt), building(folder) as draft:
        (draft / "version").write_text("new")
    monkeypatch.undo()
    assert not folder.exists()
    # The next attempt fails too, and yet the old one is there again.
    with pytest.raises(ZeroDivisionError):
        _fail_while_building(folder)
    assert (folder / "version").read_text() == "old"


def _fail_while_building(folder: Path) -> None:
    with building(folder) as draft:
        (draft / "version").write_text("new")
        raise ZeroDivisionError


def test_removing_a_folder_follows_no_link(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    doomed = tmp_path / "doomed"
    (doomed / "inner").mkdir(parents=True)
    (doomed / "inner" / "file").touch()
    (doomed / "link").symlink_to(kept)
    remove_folder(doomed)
    assert not doomed.exists()
    assert (kept / "file").exists()
    link = tmp_path / "link"
    link.symlink_to(kept)
    remove_folder(link)
    assert not link.is_symlink()
    assert (kept / "file").exists()
    remove_folder(kept / "file")
    assert not any(kept.iterdir())
    remove_folder(tmp_path / "absent")


@pytest.mark.parametrize("name", ["ü" * 127, "a" * 255, os.fsdecode(b"\xff" * 255)])
def test_a_file_s_name_of_any_length_and_bytes(tmp_path: Path, name: str) -> None:
    for content in "ab":
        write_atomically(tmp_path / name, content)
        assert (tmp_path / name).read_text() == content
    assert list(tmp_path.iterdir()) == [tmp_path / name]


def test_a_folder_s_name_of_any_bytes(tmp_path: Path) -> None:
    folder, other = tmp_path / os.fsdecode(b"\xff"), tmp_path / "other"
    other.mkdir()
    for _ in range(2):
        with building(folder) as draft:
            (draft / "a").write_text("a")
    assert sorted(tmp_path.iterdir()) == sorted([folder, other])


def test_a_file_system_without_locks_is_worked_on(tmp_path: Path, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fail)
    with exclusive_lock(tmp_path, "`work`"):
        pass
    assert not list(tmp_path.iterdir())


def test_two_at_the_same_work(tmp_path: Path) -> None:
    with (
        exclusive_lock(tmp_path, "`work`"),
        pytest.raises(MtkitError, match="`work` can't start: another mtkit command is running"),
        exclusive_lock(tmp_path, "`work`"),
    ):
        pass
    with exclusive_lock(tmp_path, "`work`"):
        pass


BUILD = """
import sys
from pathlib import Path
from mtkit.folders import building
with building(Path(sys.argv[1])) as draft:
    (draft / "a").write_text(sys.argv[2])
    print(draft.name, flush=True)
    sys.stdin.readline()
    (draft / "b").write_text(sys.argv[2])
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def end(process: subprocess.Popen[str], stdin: str = "") -> None:
    _, said = process.communicate(stdin, timeout=120)
    assert process.returncode == 0, said


def name_draft(builder: subprocess.Popen[str]) -> str:
    """Returns the name of the draft that a builder has begun."""
    assert builder.stdout is not None
    return builder.stdout.readline().strip()


def test_two_that_build_a_folder_at_once_each_leave_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    first, second = start(BUILD, folder, "first"), start(BUILD, folder, "second")
    assert name_draft(first) != name_draft(second)
    for builder, text in ((second, "second"), (first, "first")):
        end(builder, "\n")
        assert {path.name: path.read_text() for path in folder.iterdir()} == {"a": text, "b": text}
    assert list(tmp_path.iterdir()) == [folder]


def test_drafts_of_the_dead_are_removed_and_those_of_the_living_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (tmp_path / ".model.mine.draft").mkdir()
    dead, living = start(BUILD, folder, "dead"), start(BUILD, folder, "living")
    abandoned, wanted = name_draft(dead), name_draft(living)
    dead.kill()
    dead.communicate()
    assert (tmp_path / abandoned / "a").read_text() == "dead"
    with building(folder) as draft:
        (draft / "a").write_text("new")
        assert {path.name for path in tmp_path.glob("*.draft")} == {
            draft.name, wanted, ".model.mine.draft"
        }  # fmt: skip
    end(living, "\n")
    assert (folder / "b").read_text() == "living"
    assert {path.name for path in tmp_path.iterdir()} == {"model", ".model.mine.draft"}
