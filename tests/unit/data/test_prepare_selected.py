"""What `prepare` leaves of text that is selected, by language models that count words."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from mtkit.data.check import check_recipe_data
from mtkit.data.prepare import is_prepared, prepare
from mtkit.data.prepared import open_prepared
from mtkit.errors import MtkitError
from mtkit.executor import WorkerNeeds
from mtkit.model.digest import digest_model
from mtkit.recipe import Recipe, load_recipe
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.train_tokenizer import train_tokenizer
from mtkit.workspace import Workspace

SELECTION = "data.cleaning.selection"
PAIRS = """\
name = "selected"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
name = "far"
source = "far.en"
target = "far.de"
[[data.train]]
name = "near"
source = "near.en"
target = "near.de"
[data.dev]
source = "dev.en"
target = "dev.de"
[data.cleaning.selection]
in_domain_source = "ours"
general_source = "general"
keep = 0.3
[tokenizer]
vocab_size = 60
"""
TEXT = """\
name = "selected-text"
objective = "causal-lm"
[data]
language = "en"
block_tokens = 16
[[data.train]]
name = "far"
text = "far.en"
[[data.train]]
name = "near"
text = "near.en"
[data.dev]
text = "dev.en"
[data.cleaning.selection]
in_domain = "ours"
general = "general"
keep = 0.3
[tokenizer]
vocab_size = 60
[training]
validation = { metric = "loss" }
"""
THINGS = ["boat", "tree", "house", "bird", "stone"]


@dataclass(frozen=True)
class CountingModels:
    """The model in `ours` gives a line that says so a probability of 1, others give e to the -9."""

    replaces: Path | None = None

    def check(self, folder: Path, language: str) -> None:
        if not folder.is_dir():
            raise MtkitError(f"{folder}: no such folder")

    def digest(self, folder: Path) -> str:
        return digest_model(folder)

    def open(self, folder: Path):
        def score(lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
            if self.replaces is not None:
                (self.replaces / "config.json").write_text("another")
            is_near = np.array(["near" in line for line in lines])
            expects = is_near & (folder.name == "ours")
            return np.where(expects, 0.0, -9.0), np.array([len(line) for line in lines])

        return score

    def needs(self, folders: Sequence[Path]) -> WorkerNeeds:
        return WorkerNeeds()


def list_lines(kind: str, count: int) -> list[str]:
    return [
        f"the {THINGS[i % 5]} is {kind} number {'one ' * (i % 4)}{i + 10}" for i in range(count)
    ]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Recipes of 70 pairs or lines that are far, and 30 that are near, two of them twice."""
    (tmp_path / "pairs.toml").write_text(PAIRS)
    (tmp_path / "text.toml").write_text(TEXT)
    near = list_lines("near", 30)
    lines = {"far": list_lines("far", 70), "near": [*near, *near[:2]], "dev": list_lines("own", 9)}
    for name, each in lines.items():
        for language, word in (("en", ""), ("de", "x ")):
            text = "".join(f"{word}{line}\n" for line in each)
            (tmp_path / f"{name}.{language}").write_text(text)
    tokenizer = train_tokenizer(Tokenizer(vocab_size=60), lines["far"], [], seed=1)
    for name in ("ours", "general"):
        tokenizer.save(tmp_path / name)
        (tmp_path / name / "config.json").write_text(name)
    return tmp_path


def open_run(folder: Path, kind: str, *overrides: str) -> tuple[Recipe, Workspace]:
    return load_recipe(folder / f"{kind}.toml", overrides), Workspace(folder / f"run-{kind}")


def read_train(recipe: Recipe, workspace: Workspace) -> str:
    """Returns the training text as the tokens say it."""
    data = open_prepared(recipe, workspace)
    [*_, tokens] = data.train.gather(np.arange(len(data.train))).values()
    rows = tokens.to_lists()
    tokenizer: SubwordTokenizer = data.tokenizer
    return "\n".join(tokenizer.decode_target(row) for row in rows)


@pytest.mark.parametrize("kind", ["pairs", "text"])
def test_training_has_what_is_selected_and_no_more(project: Path, kind: str) -> None:
    recipe, workspace = open_run(project, kind)
    prepare(recipe, workspace, models=CountingModels())
    text = read_train(recipe, workspace)
    assert "far" not in text
    assert text.count("near") == 30
    assert is_prepared(recipe, workspace, CountingModels())
    report = json.loads((workspace.data / "report.json").read_text())
    far, near = report["corpora"]
    assert (far["kept"], far["dropped"]["selection"]) == (0, 70)
    assert (near["kept"], near["dropped"]["duplicates"], near["dropped"]["selection"]) == (30, 2, 0)
    found = report["selection"]
    assert (found["scored"], found["kept"], found["unit"]) == (100, 30, "token")
    assert (found["corpora"]["far"]["kept"], found["corpora"]["near"]["kept"]) == (0, 30)
    assert {row["corpus"] for row in found["samples"]["last kept"]} == {"near"}
    assert not found["is_estimate"]
    # That most is dropped was asked for.
    assert not any("selection drops" in note for note in report["notes"])
    page = (workspace.data / "report.html").read_text()
    assert "<h2>Selection</h2>" in page
    assert workspace.read_manifest()["prepare"]["train"]["dropped"]["selection"] == 70


def test_another_share_measures_nothing_again(project: Path, capsys) -> None:
    recipe, workspace = open_run(project, "pairs")
    prepare(recipe, workspace, models=CountingModels())
    capsys.readouterr()
    recipe, workspace = open_run(project, "pairs", f"{SELECTION}.keep=0.5")
    assert not is_prepared(recipe, workspace, CountingModels())
    prepare(recipe, workspace, models=CountingModels())
    said = capsys.readouterr().err
    assert "differences: unchanged, reused" in said
    assert "selection: unchanged" not in said
    assert read_train(recipe, workspace).count("far") == 20


def test_without_a_selection_data_are_as_if_there_had_never_been_one(project: Path) -> None:
    recipe, workspace = open_run(project, "pairs", f"~{SELECTION}")
    prepare(recipe, workspace)
    before = {path: path.read_bytes() for path in workspace.data.rglob("*.arrow")}
    digest = open_prepared(recipe, workspace).digest
    names = {path.name for path in workspace.data.iterdir()}
    assert not names & {"differences", "selection"}
    assert "selection" not in json.loads((workspace.data / "report.json").read_text())
    selecting, _ = open_run(project, "pairs")
    prepare(selecting, workspace, models=CountingModels())
    assert open_prepared(selecting, workspace).digest != digest
    prepare(recipe, workspace)
    assert {path.name for path in workspace.data.iterdir()} == names
    assert {path: path.read_bytes() for path in workspace.data.rglob("*.arrow")} == before
    assert open_prepared(recipe, workspace).digest == digest


def test_a_model_that_is_replaced_meanwhile_is_told(project: Path) -> None:
    recipe, workspace = open_run(project, "pairs")
    with pytest.raises(MtkitError, match="was replaced while it measured the text"):
        prepare(recipe, workspace, models=CountingModels(replaces=project / "ours"))
    assert not is_prepared(recipe, workspace, CountingModels())
    prepare(recipe, workspace, models=CountingModels())
    assert read_train(recipe, workspace).count("near") == 30


def test_models_are_checked_before_anything_is_read(project: Path, capsys) -> None:
    recipe, workspace = open_run(project, "pairs", f"{SELECTION}.general_source=nowhere")
    with pytest.raises(MtkitError, match="nowhere: no such folder"):
        prepare(recipe, workspace, models=CountingModels())
    assert not workspace.root.exists()
    found = check_recipe_data(recipe, models=CountingModels())
    assert any("nowhere: no such folder" in str(fault) for fault in found.faults)


@pytest.mark.parametrize("kind", ["pairs", "text"])
def test_a_check_ranks_a_sample(project: Path, kind: str) -> None:
    # Its lines are English on both sides.
    language = ["data.target_language=en"] if kind == "pairs" else []
    recipe, workspace = open_run(project, kind, f"{SELECTION}.keep=0.2", *language)
    found = check_recipe_data(recipe, models=CountingModels())
    assert not found.faults
    assert not workspace.root.exists()
    ranked = found.report.selection
    assert ranked is not None
    assert ranked["is_estimate"]
    assert (ranked["corpora"]["far"]["kept"], ranked["corpora"]["near"]["kept"]) == (0, 20)
    far, near = found.report.corpora
    assert far["kept"] == 0
    assert near["kept"] == 20
