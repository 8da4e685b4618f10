"""Test sets translated once and scored, with a translator that shouts in place of a model."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.evaluation.report.tables import ScoreRow, list_rows
from mtkit.model.config import ModelConfig, write_section
from mtkit.pipeline import score as score_module
from mtkit.pipeline.score import check_named_files, score
from mtkit.pipeline.score_files import ScoredText
from mtkit.pipeline.translation_files import TranslationFiles
from mtkit.recipe import Recipe, dump_recipe, load_recipe
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


def rows_of(scored: Sequence[ScoredText]) -> list[ScoreRow]:
    return [row for each in scored for row in list_rows(each.evaluated)]


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
def workspace(tmp_path: Path, recipe: Recipe) -> Workspace:
    workspace = Workspace(tmp_path / "run")
    workspace.model.mkdir(parents=True)
    config = ModelConfig(
        recipe="small",
        source_language="en",
        target_language="de",
        source_vocab_size=8,
        target_vocab_size=8,
        model=recipe.model,
    )
    write_section(workspace.model / "config.json", config)
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
    rows = rows_of(score(recipe, workspace))
    assert [(row.test_set, row.metric, row.num_sentences) for row in rows] == [
        ("test", "BLEU", 3), ("test", "chrF2", 3), ("test", "TER", 3)
    ]  # fmt: skip
    translation = TranslationFiles(workspace, "test").read()
    assert translation.sources == ["a b c d", "", "e\u2028f g h i"]
    assert translation.hypotheses == ["A B C D", "", "E\u2028F G H I"]
    assert translation.references == [["A B C D", "nichts", "E\u2028F G H I"]]
    saved = json.loads(workspace.scores_file.read_text())
    assert [row["value"] for row in saved["scores"]] == [row.value for row in rows]
    assert workspace.read_manifest()["score"]["scores"] == saved["scores"]
    card = (workspace.model / "README.md").read_text()
    assert f"| test | BLEU | {rows[0].value:.2f} |" in card


@pytest.mark.usefixtures("shouter")
def test_the_metric_that_chose_the_translations_is_named(
    tmp_path: Path, recipe: Recipe, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    score(recipe, workspace)
    assert "warning" not in capsys.readouterr().err
    score(load_recipe(tmp_path / "small.toml", ["inference.rerank={}"]), workspace)
    (warning,) = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert warning == (
        'warning: inference.rerank.metric = "chrf" chose the translations, so their chrf is too '
        "good to compare: compare systems by another metric"
    )


def test_a_translation_is_made_once(recipe: Recipe, workspace: Workspace, shouter: Shouter) -> None:
    first = rows_of(score(recipe, workspace))
    assert rows_of(score(recipe, workspace)) == first
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


def test_settings_that_differ_from_the_runs_are_named(
    recipe: Recipe,
    workspace: Workspace,
    shouter: Shouter,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    trained = load_recipe(tmp_path / "small.toml", ["inference.beam_size=2"])
    workspace.recipe_file.write_text(dump_recipe(trained))
    score(recipe, workspace)
    beam = recipe.inference.beam_size
    assert f"other than those of its training: inference.beam_size was 2, now {beam};" in (
        capsys.readouterr().err
    )
    score(trained, workspace)
    assert "trained with" not in capsys.readouterr().err
    # As a path in invalid UTF-8 leaves it.
    workspace.recipe_file.write_text('name = "\\ud8ff"')
    score(recipe, workspace)


def test_batch_size_and_metrics_need_no_new_translation(
    recipe: Recipe, workspace: Workspace, shouter: Shouter, tmp_path: Path
) -> None:
    score(recipe, workspace)
    overrides = ["inference.batch_tokens=99", 'evaluation.metrics=["ter"]']
    [row] = rows_of(score(load_recipe(tmp_path / "small.toml", overrides), workspace))
    assert (row.metric, shouter.num_lines) == ("TER", 3)


def test_new_references_are_scored_at_once(
    recipe: Recipe, workspace: Workspace, shouter: Shouter, tmp_path: Path
) -> None:
    score(recipe, workspace)
    (tmp_path / "test.de").write_text("A B C D\n\nE\u2028F G H I\n", encoding="utf-8")
    rows = rows_of(score(recipe, workspace))
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


def test_a_tag_is_for_the_model_alone(
    recipe: Recipe, workspace: Workspace, shouter: Shouter, tmp_path: Path
) -> None:
    overrides = [
        'evaluation.test_sets=[{name="test", source="test.en", target="test.de", tag="<x>"}]'
    ]
    [scored] = score(load_recipe(tmp_path / "small.toml", overrides), workspace)
    assert scored.text.sources == ["a b c d", "", "e\u2028f g h i"]
    assert list(scored.systems.values()) == [["<X> A B C D", "", "<X> E\u2028F G H I"]]


@pytest.mark.usefixtures("shouter")
def test_scores_on_other_sets_stay_where_that_is_asked_for(
    recipe: Recipe, workspace: Workspace, tmp_path: Path
) -> None:
    score(recipe, workspace)
    before = json.loads(workspace.scores_file.read_text())["scores"]
    overrides = ['evaluation.test_sets=[{name="more", source="test.en", target="test.de"}]']
    other = load_recipe(tmp_path / "small.toml", overrides)
    score(other, workspace, keeps_others=True)
    after = json.loads(workspace.scores_file.read_text())["scores"]
    assert after[: len(before)] == before
    assert {row["test_set"] for row in after} == {"test", "more"}
    # Those of another model don't belong there.
    (workspace.model / "model.safetensors").write_bytes(b"other weights")
    score(other, workspace, keeps_others=True)
    rows = json.loads(workspace.scores_file.read_text())["scores"]
    assert {row["test_set"] for row in rows} == {"more"}


@pytest.mark.usefixtures("shouter")
@pytest.mark.parametrize("change", [{"value": math.nan}, {"interval": 1.0}])
def test_scores_of_an_unreleased_version_are_refused(
    recipe: Recipe, workspace: Workspace, tmp_path: Path, change: dict[str, float]
) -> None:
    score(recipe, workspace)
    saved = json.loads(workspace.scores_file.read_text())
    saved["scores"][0] |= change
    workspace.scores_file.write_text(json.dumps(saved))
    overrides = ['evaluation.test_sets=[{name="more", source="test.en", target="test.de"}]']
    other = load_recipe(tmp_path / "small.toml", overrides)
    with pytest.raises(MtkitError, match=r"scores\.json: made by an unreleased mtkit") as fault:
        score(other, workspace, keeps_others=True)
    assert fault.value.hint.endswith(f"mtkit score --workspace {workspace.root}")
    score(recipe, workspace)
    score(other, workspace, keeps_others=True)


def test_origins_are_those_of_one_test_set(
    recipe: Recipe, workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "origins").write_text("a\nb\na\n")
    one = '{name="NAME", source="test.en", target="test.de"}'
    two = ", ".join(one.replace("NAME", name) for name in ("first", "second"))
    overrides = [f"evaluation.test_sets=[{two}]", "evaluation.origins=origins"]
    with pytest.raises(MtkitError, match="there are 2"):
        score(load_recipe(tmp_path / "small.toml", overrides), workspace)


@pytest.mark.usefixtures("shouter")
def test_a_recipes_origins_lie_beside_its_corpora(
    recipe: Recipe, workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "origins").write_text("a\nb\na\n")
    loaded = load_recipe(tmp_path / "small.toml", ["evaluation.origins=origins"])
    [scored] = score(loaded, workspace)
    assert scored.text.origins == ["a", "b", "a"]


def test_another_model_that_reranks_makes_other_translations(
    tmp_path: Path, workspace: Workspace, shouter: Shouter, make_folder: Callable[[Path], Path]
) -> None:
    other = make_folder(tmp_path / "other")
    chosen = f'inference.rerank.models=[{{path="{other}"}}]'
    recipe = load_recipe(tmp_path / "small.toml", [chosen])
    score(recipe, workspace)
    score(recipe, workspace)
    assert shouter.num_lines == 3
    weights = other / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-4] + b"\0\0\0\1")
    score(recipe, workspace)
    assert shouter.num_lines == 6


@pytest.mark.usefixtures("shouter")
@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ('inference.rerank.models=[{path="nix"}]', "nix: no model"),
        ("inference.rerank.metric=./nix", "nix: no metric here"),
        ("evaluation.glossary=nix.tsv", "nix.tsv: no such glossary"),
    ],
)
def test_missing_files_are_found_before_a_model_is_opened(
    tmp_path: Path, workspace: Workspace, override: str, fault: str
) -> None:
    recipe = load_recipe(tmp_path / "small.toml", [override])
    with pytest.raises(MtkitError, match=fault):
        check_named_files(recipe.evaluation, recipe.inference)
    with pytest.raises(MtkitError, match=fault):
        score(recipe, workspace)


@pytest.mark.usefixtures("shouter")
def test_a_test_sets_tag_is_not_in_its_text(tmp_path: Path, workspace: Workspace) -> None:
    recipe = load_recipe(tmp_path / "small.toml", ["evaluation.test_sets.0.tag=<f>"])
    score(recipe, workspace)
    translation = TranslationFiles(workspace, "test").read()
    assert translation.sources[0] == "a b c d"
    assert translation.hypotheses[0] == "<F> A B C D"
