"""Test sets translated once and scored, with a translator that shouts in place of a model."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.pipeline import score as score_module
from mtkit.pipeline.score import read_translation, score
from mtkit.recipe import Recipe, load_recipe
from mtkit.workspace import Workspace

RECIPE = """\
name = "small"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
builtin = "phrasebook"
[data.dev]
builtin = "phrasebook"
[evaluation]
tokenize = "none"
smooth = "none"
[[evaluation.test_sets]]
name = "test"
source = "test.en"
target = "test.de"
"""


class Shouter:
    """Translates into capitals, and counts how many lines it was given."""

    num_lines = 0

    def translate(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            self.num_lines += 1
            yield line.upper()


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    (tmp_path / "small.toml").write_text(RECIPE)
    (tmp_path / "test.en").write_text("a b c d\n\ne\u2028f g h i\n", encoding="utf-8")
    (tmp_path / "test.de").write_text("A B C D\nnichts\nE\u2028F G H I\n", encoding="utf-8")
    return load_recipe(tmp_path / "small.toml")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = Workspace(tmp_path / "run")
    workspace.model.mkdir(parents=True)
    (workspace.model / "model.safetensors").write_bytes(b"weights")
    (workspace.model / "README.md").write_text("# small\n\n## Scores\n\nNot scored yet.\n")
    return workspace


@pytest.fixture
def shouter(monkeypatch: pytest.MonkeyPatch) -> Shouter:
    shouter = Shouter()
    monkeypatch.setattr(score_module, "load_run", lambda *_, **__: shouter)
    return shouter


@pytest.mark.usefixtures("shouter")
def test_translations_and_scores_are_left_in_the_workspace(
    recipe: Recipe, workspace: Workspace
) -> None:
    rows = score(recipe, workspace)
    assert [(row.test_set, row.metric, row.num_sentences) for row in rows] == [
        ("test", "BLEU", 3), ("test", "chrF2", 3), ("test", "TER", 3)
    ]  # fmt: skip
    translation = read_translation(workspace, "test")
    assert translation.sources == ["a b c d", "", "e\u2028f g h i"]
    assert translation.hypotheses == ["A B C D", "", "E\u2028F G H I"]
    assert translation.references == ["A B C D", "nichts", "E\u2028F G H I"]
    saved = json.loads(workspace.scores_file.read_text())
    assert [row["value"] for row in saved["scores"]] == [row.value for row in rows]
    assert workspace.read_manifest()["score"]["scores"] == saved["scores"]
    card = (workspace.model / "README.md").read_text()
    assert f"| test | BLEU | {rows[0].value:.2f} |" in card


def test_a_translation_is_made_once(recipe: Recipe, workspace: Workspace, shouter: Shouter) -> None:
    first = score(recipe, workspace)
    assert score(recipe, workspace) == first
    assert shouter.num_lines == 3


def test_it_is_made_anew_when_model_settings_source_or_file_change(
    recipe: Recipe, workspace: Workspace, shouter: Shouter, tmp_path: Path
) -> None:
    score(recipe, workspace)
    (workspace.model / "model.safetensors").write_bytes(b"other weights")
    score(recipe, workspace)
    assert shouter.num_lines == 6
    overrides = ["inference.beam_size=7"]
    score(load_recipe(tmp_path / "small.toml", overrides), workspace)
    assert shouter.num_lines == 9
    (tmp_path / "test.en").write_text("x\ny\nz\n")
    score(load_recipe(tmp_path / "small.toml", overrides), workspace)
    assert shouter.num_lines == 12
    (workspace.translations / "test.hyp").write_text("cut off\n")
    score(load_recipe(tmp_path / "small.toml", overrides), workspace)
    assert shouter.num_lines == 15


def test_batch_size_and_metrics_need_no_new_translation(
    recipe: Recipe, workspace: Workspace, shouter: Shouter, tmp_path: Path
) -> None:
    score(recipe, workspace)
    overrides = ["inference.batch_tokens=99", 'evaluation.metrics=["ter"]']
    [row] = score(load_recipe(tmp_path / "small.toml", overrides), workspace)
    assert (row.metric, shouter.num_lines) == ("TER", 3)


def test_new_references_are_scored_at_once(
    recipe: Recipe, workspace: Workspace, shouter: Shouter, tmp_path: Path
) -> None:
    score(recipe, workspace)
    (tmp_path / "test.de").write_text("A B C D\n\nE\u2028F G H I\n", encoding="utf-8")
    rows = score(recipe, workspace)
    # Every line as in its reference: all n-grams match, none needs an edit.
    assert [round(row.value, 9) for row in rows] == [100.0, 100.0, 0.0]
    assert shouter.num_lines == 3


@pytest.mark.usefixtures("shouter")
def test_no_model_no_test_sets_and_missing_text_are_faults(
    recipe: Recipe, workspace: Workspace, tmp_path: Path
) -> None:
    with pytest.raises(MtkitError, match="no model in") as fault:
        score(recipe, Workspace(tmp_path / "empty"))
    assert "mtkit train" in fault.value.hint
    with pytest.raises(MtkitError, match="recipe small has no test sets") as fault:
        score(load_recipe(tmp_path / "small.toml", ["~evaluation.test_sets"]), workspace)
    assert "[[evaluation.test_sets]]" in fault.value.hint
    (tmp_path / "test.de").unlink()
    with pytest.raises(MtkitError, match=r"test\.de: no such file"):
        score(recipe, workspace)
