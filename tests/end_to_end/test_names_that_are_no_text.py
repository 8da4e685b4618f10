"""Files and folders whose names are bytes that no encoding knows, or break lines and tables."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import mtkit

from .. import warm
from ..command import run_here

# Invalid UTF-8, a tab, an emoji's code, a bar and a line's end: all of it is a name under Linux.
ODD = os.fsdecode(b"odd\xff\t:100:|\n")
SHOWN = r"odd\xff\t:100:|\n"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="other systems refuse such names of files"
)


def run(
    folder: Path,
    *arguments: str,
    text: bytes = b"",
    **environment: str,
) -> subprocess.CompletedProcess[bytes]:
    # Python reads its encoding at its start.
    is_cold = "PYTHONIOENCODING" in environment
    command = [sys.executable, "-m", "mtkit"] if is_cold else warm.command()
    done = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        input=text,
        capture_output=True,
        check=False,
        timeout=240,
        env={**os.environ, "PYTHONPATH": str(Path(mtkit.__file__).parents[1]), **environment},
    )
    assert b"Traceback" not in done.stderr
    assert not [path for path in folder.rglob("*") if path.name.endswith(".draft")]
    return done


@pytest.fixture
def systems(tmp_path: Path) -> list[str]:
    """Options that name two systems' files and a reference."""
    names = {"--hypothesis": [f"A{ODD}.de", "Bü中.de"], "--reference": [f"ref{ODD}"]}
    options = []
    for option, files in names.items():
        for file in files:
            (tmp_path / file).write_text("a b c d e\n" * 3, "utf-8")
            options += [option, file]
    return options


def test_the_table_keeps_its_rows(tmp_path: Path, systems: list[str]) -> None:
    done = run(tmp_path, "score", *systems, "--set", 'evaluation.metrics=["bleu"]')
    assert done.returncode == 0
    rows = [line.split("\t") for line in done.stdout.decode("utf-8").splitlines()]
    assert [row[:3] for row in rows] == [
        [f"A{SHOWN}", "BLEU", "100.00"],
        ["Bü中", "BLEU", "100.00"],
    ]


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", rb"B\xfc\u4e2d"),
        pytest.param("ascii:strict", rb"B\xfc\u4e2d", marks=pytest.mark.patient),
        ("latin-1", b"B\xfc" + rb"\u4e2d"),
    ],
)
def test_letters_that_stdout_lacks_are_escaped(
    tmp_path: Path, systems: list[str], encoding: str, shown: bytes
) -> None:
    chosen = ["--set", 'evaluation.metrics=["bleu"]']
    plain = run(tmp_path, "score", *systems, *chosen, PYTHONIOENCODING=encoding)
    assert plain.returncode == 0
    assert plain.stdout.splitlines()[1].split(b"\t")[0] == shown
    as_json = run(tmp_path, "score", *systems, *chosen, "--json", PYTHONIOENCODING=encoding)
    assert [row["system"] for row in json.loads(as_json.stdout)] == [f"A{SHOWN}", "Bü中"]


def test_reports_of_every_kind_are_whole(tmp_path: Path, systems: list[str]) -> None:
    names = [f"--report={name}" for name in (f"{ODD}.md", "report.json", "report.html")]
    assert run(tmp_path, "score", *systems, *names, PYTHONIOENCODING="ascii").returncode == 0
    header, _, *rows = (tmp_path / f"{ODD}.md").read_text("utf-8").split("\n\n")[0].splitlines()
    assert len(rows) == 2
    # Behind a backslash a bar is no border.
    assert all(row.replace("\\|", "").count("|") == header.count("|") for row in rows), rows
    found = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert [system["name"] for system in found["systems"]] == [f"A{SHOWN}", "Bü中"]
    assert f"A{SHOWN}" in (tmp_path / "report.html").read_text("utf-8")


@pytest.mark.slow
def test_a_model_folder_anywhere_translates(tiny_run, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    place = tiny_run("training.max_steps=3", name=ODD)
    # The commands train and average in such a folder below.
    assert place.train()
    exported = run_here(tmp_path, "export", *place.options)
    assert exported.returncode == 0, exported.stderr
    root, line = place.workspace.root, "The dog sleeps.\n"
    model = str(root / "model")
    done = run(tmp_path, "translate", "--model", model, text=line.encode())
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    assert b"damaged" not in done.stderr


@pytest.mark.slow
def test_a_run_in_such_a_folder(tmp_path: Path) -> None:
    project = tmp_path / ODD
    project.mkdir()
    recipe = (Path(__file__).parents[1] / "tiny.toml").read_text("utf-8")
    (project / "mtkit.toml").write_text(recipe, "utf-8")
    options = ["--set", "training.max_steps=3"]
    done = run(project, "run", *options)
    assert done.returncode == 0, done.stderr
    # Prepared data are found to be of this recipe, and nothing is made twice.
    again = run_here(project, "run", *options)
    assert (again.returncode, "train: already finished" in again.stderr) == (0, True)


def test_a_recipe_takes_no_such_name(tmp_path: Path) -> None:
    done = run(tmp_path, "plan", "-r", "phrasebook-en-de", "-s", f"data.data_root={ODD}")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(rb"error: --set data.data_root=odd\xff")
