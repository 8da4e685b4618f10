"""What the stages record of a run."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_recorded_is_json(tmp_path: Path, number: float) -> None:
    workspace = Workspace(tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        workspace.record("score", {"value": number})
    assert not workspace.manifest_file.exists()
    # As another program may have written it.
    workspace.manifest_file.write_text(json.dumps({"score": {"value": number}}))
    workspace.record("train", {"seed": 1})
    manifest = json.loads(workspace.manifest_file.read_text(), parse_constant=pytest.fail)
    assert manifest["score"] == {"value": None}


RECORD = """
import sys
from pathlib import Path
from mtkit import workspace
workspace._environment = dict
here = workspace.Workspace(Path(sys.argv[1]))
for number in range(50):
    here.record(f"stage {sys.argv[2]} {number}", {"number": number})
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


def test_processes_that_record_at_once_lose_nothing(tmp_path: Path) -> None:
    recorders = [start(RECORD, tmp_path, number) for number in range(4)]
    for recorder in recorders:
        end(recorder)
    assert Workspace(tmp_path).read_manifest().keys() == {
        f"stage {process} {number}" for process in range(4) for number in range(50)
    }
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_what_is_recorded_of_a_folder_is_of_the_one_that_is_there(tmp_path: Path) -> None:
    builders = [start(BUILD_AND_RECORD, tmp_path, number) for number in range(3)]
    for builder in builders:
        end(builder)
    workspace = Workspace(tmp_path)
    recorded = workspace.read_manifest()["model"]["text"]
    assert [path.read_text() for path in workspace.model.iterdir()] == [recorded, recorded]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "model"]
