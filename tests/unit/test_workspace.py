import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from mtkit.digests import digest, digest_file
from mtkit.errors import MtkitError
from mtkit.files import read_json, reserve, write_atomically
from mtkit.folders import at_work_alone, building, remove_folder
from mtkit.workspace import Workspace


def test_a_workspace_is_named_after_its_recipe_unless_a_folder_is_given() -> None:
    assert Workspace.of("demo").root == Path("runs/demo")
    assert Workspace.of("demo", Path("elsewhere")).model == Path("elsewhere/model")


def test_the_manifest_gathers_what_each_stage_records(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "run")
    assert workspace.read_manifest() == {}
    workspace.record("prepare", {"pairs": 3})
    workspace.record("train", {"seed": 1})
    manifest = workspace.read_manifest()
    assert (manifest["prepare"]["pairs"], manifest["train"]["seed"]) == (3, 1)
    assert {"python", "torch", "sacrebleu"} <= manifest["prepare"]["environment"].keys()


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "facts.json"
    path.write_bytes(content)
    with pytest.raises(MtkitError, match=r"facts\.json: damaged"):
        read_json(path)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_recorded_is_json(tmp_path: Path, number: float) -> None:
    workspace = Workspace(tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        workspace.record("score", {"value": number})
    assert not workspace.manifest_file.exists()
    # As older versions wrote it.
    workspace.manifest_file.write_text(json.dumps({"score": {"value": number}}))
    workspace.record("train", {"seed": 1})
    manifest = json.loads(workspace.manifest_file.read_text(), parse_constant=pytest.fail)
    assert manifest["score"] == {"value": None}


def test_a_file_is_written_whole_and_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "text"
    write_atomically(path, "für\r\n")
    write_atomically(path, "dich\n")
    assert path.read_bytes() == b"dich\n"
    assert list(path.parent.iterdir()) == [path]


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
    remove_folder(tmp_path / "absent")


def test_digests_depend_on_content_alone(tmp_path: Path) -> None:
    assert digest({"a": 1, "b": 2}) == digest(json.loads('{"b": 2, "a": 1}'))
    assert digest({"a": 1}) != digest({"a": 1.5})
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    # FIPS 180-2, appendix B.1: SHA-256 of "abc" begins so.
    assert digest_file(path) == "ba7816bf8f01cfea"


def test_space_is_set_aside_for_a_file_with_holes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as stream:
        stream.truncate(1_000_000)
    reserve(path)
    assert path.read_bytes() == bytes(1_000_000)
    # In units of 512 bytes, whatever the file system's own are.
    assert path.stat().st_blocks * 512 >= 1_000_000


def test_two_at_the_same_work(tmp_path: Path) -> None:
    with (
        at_work_alone(tmp_path, "`work`"),
        pytest.raises(MtkitError, match="`work` can't start: another mtkit command is at work"),
        at_work_alone(tmp_path, "`work`"),
    ):
        pass
    with at_work_alone(tmp_path, "`work`"):
        pass


RECORD = """
import sys
from pathlib import Path
from mtkit import workspace
workspace._environment = dict
here = workspace.Workspace(Path(sys.argv[1]))
for number in range(50):
    here.record(f"stage {sys.argv[2]} {number}", {"number": number})
"""
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
BUILD_AND_RECORD = """
import sys
from pathlib import Path
from mtkit import folders, workspace
workspace._environment = dict
here = workspace.Workspace(Path(sys.argv[1]))
for number in range(20):
    text = f"{sys.argv[2]} {number}"
    def then(folder):
        assert (folder / "b").read_text() == text
        here.record("model", {"text": text})
    with folders.building(here.model, then=then) as draft:
        (draft / "a").write_text(text)
        (draft / "b").write_text(text)
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


def test_processes_that_record_at_once_lose_nothing(tmp_path: Path) -> None:
    recorders = [start(RECORD, tmp_path, number) for number in range(4)]
    for recorder in recorders:
        end(recorder)
    assert Workspace(tmp_path).read_manifest().keys() == {
        f"stage {process} {number}" for process in range(4) for number in range(50)
    }
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_two_that_build_a_folder_at_once_each_leave_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    first, second = start(BUILD, folder, "first"), start(BUILD, folder, "second")
    assert name_draft(first) != name_draft(second)
    for builder, text in ((second, "second"), (first, "first")):
        end(builder, "\n")
        assert {path.name: path.read_text() for path in folder.iterdir()} == {"a": text, "b": text}
    assert list(tmp_path.iterdir()) == [folder]


def test_what_is_recorded_of_a_folder_is_of_the_one_that_is_there(tmp_path: Path) -> None:
    builders = [start(BUILD_AND_RECORD, tmp_path, number) for number in range(3)]
    for builder in builders:
        end(builder)
    workspace = Workspace(tmp_path)
    recorded = workspace.read_manifest()["model"]["text"]
    assert [path.read_text() for path in workspace.model.iterdir()] == [recorded, recorded]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "model"]


def test_drafts_of_the_dead_are_removed_and_those_of_the_living_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (tmp_path / ".model.draft").mkdir()  # As earlier versions named it.
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
