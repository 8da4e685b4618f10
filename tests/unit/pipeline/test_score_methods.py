"""Methods compared by the translations in their runs' workspaces."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.pipeline import score_methods as methods
from mtkit.pipeline.score_methods import score_methods
from mtkit.pipeline.translation_files import TranslationFiles
from mtkit.workspace import Workspace

from ...command import run_here
from .test_score import RECIPE

REFERENCES = [f"the cat number {index} sat on a red mat" for index in range(120)]


def write_run(folder: Path, wrong: Sequence[int], *, name: str = "test") -> None:
    """Writes a workspace with translations of which some are wrong."""
    hypotheses = ["no" if index in wrong else line for index, line in enumerate(REFERENCES)]
    workspace = Workspace(folder)
    TranslationFiles(workspace, name).write(["x"] * 120, [REFERENCES], hypotheses, {})
    workspace.recipe_file.write_text(RECIPE)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for number in (1, 2, 3):
        write_run(tmp_path / f"runs/a-{number}", range(number, number + 10))
        write_run(tmp_path / f"runs/b-{number}", range(number, number + 30 + number))
    return tmp_path


def test_a_method_is_compared_with_another(runs: Path) -> None:
    done = run_here(runs, "score", "--runs", "runs/a-*", "--against", "runs/b-*", "--json")
    rows = json.loads(done.stdout)
    assert [(row["metric"], row["method"]) for row in rows[:2]] == [
        ("BLEU", "runs/a-*"),
        ("BLEU", "runs/b-*"),
    ]
    difference = rows[0]["difference"]
    assert difference["value"] == pytest.approx(rows[0]["value"] - rows[1]["value"])
    assert difference["interval"]["low"] > 0.0
    assert difference["p_value"] < 0.05
    assert "of the difference's variance comes from seeds" in done.stderr


def test_a_pipe_gets_a_line_for_each_method(runs: Path) -> None:
    chosen = 'evaluation.metrics=["chrf"]'
    (line,) = run_here(runs, "score", "--runs", "runs/a-*", "--set", chosen).stdout.splitlines()
    assert line.split("\t")[:4] == ["test", "chrF2", "runs/a-*", "3"]


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (["runs/c-*"], "runs/c-\\* matches no folders, and a method needs at least two runs"),
        (["runs/a-1"], "runs/a-1 matches 1 folder, "),
        (["runs/a-*", "runs/*"], "runs/a-1 is a run of both methods"),
    ],
)
def test_patterns_that_match_no_methods(runs: Path, patterns: list[str], message: str) -> None:
    with pytest.raises(MtkitError, match=message):
        score_methods(patterns, "", [])


def test_runs_that_cant_be_compared(runs: Path) -> None:
    write_run(runs / "runs/a-4", range(1, 11))
    with pytest.raises(MtkitError, match="a-1 and runs/a-4 have the same translations") as same:
        score_methods(["runs/a-*"], "", [])
    assert "--set seed=" in same.value.hint
    (runs / "runs/a-4/translations/test.ref").write_text("another\n" * 120)
    with pytest.raises(MtkitError, match="have different sources or references"):
        score_methods(["runs/a-*"], "", [])
    (runs / "runs/a-4/translations/test.hyp").unlink()
    with pytest.raises(MtkitError, match="runs/a-4: no translations of test sets"):
        score_methods(["runs/a-*"], "", [])


def test_a_translation_by_an_earlier_model_is_refused(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "digest_model", lambda folder: f"now {folder.parent.name}")
    for folder in (runs / "runs").glob("a-*"):
        workspace = Workspace(folder)
        workspace.model.mkdir()
        files = TranslationFiles(workspace, "test")
        found = files.read()
        made_from = {"model": f"now {folder.name}"}
        files.write(found.sources, found.references, found.hypotheses, made_from)
    assert score_methods(["runs/a-*"], "", [])
    files.write(found.sources, found.references, found.hypotheses, {"model": "earlier"})
    with pytest.raises(MtkitError, match=r"test: the translation in .* isn't by its current model"):
        score_methods(["runs/a-*"], "", [])


def test_a_translation_that_was_cut_is_reported(runs: Path) -> None:
    (runs / "runs/a-2/translations/test.hyp").write_text("one\n")
    with pytest.raises(MtkitError, match="runs/a-2 has 1 lines, but test has 120"):
        score_methods(["runs/a-*"], "", [])


def test_origins_of_another_number_of_sentences_are_reported(runs: Path) -> None:
    (runs / "origins").write_text("x\n" * 7)
    with pytest.raises(MtkitError, match=r"evaluation\.origins has 7 lines, but test has 120"):
        score_methods(["runs/a-*"], "", [f"evaluation.origins={runs}/origins"])


def test_a_test_set_that_a_run_lacks_is_left_out(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(runs / "runs/a-1", [5], name="other")
    scores = score_methods(["runs/a-*"], "", [])
    assert {each.test_set for each in scores} == {"test"}
    assert "other is left out: runs/a-2 has no translation of it" in capsys.readouterr().err


def test_other_options_are_refused(runs: Path) -> None:
    done = run_here(runs, "score", "--against", "runs/b-*")
    assert (done.returncode, "--against needs --runs" in done.stderr) == (2, True)
    files = "--hypothesis", "x", "--reference", "y"
    assert run_here(runs, "score", "--runs", "runs/a-*", *files).returncode == 2


def test_a_method_isnt_compared_with_itself(runs: Path) -> None:
    with pytest.raises(MtkitError, match="is compared with itself"):
        score_methods(["runs/a-*", "runs/a-*"], "", [])


def test_origins_of_several_test_sets_are_refused(runs: Path) -> None:
    for number in (1, 2, 3):
        write_run(runs / f"runs/a-{number}", [number], name="other")
    (runs / "origins").write_text("x\n" * 120)
    with pytest.raises(MtkitError, match="but there are 2 test sets"):
        score_methods(["runs/a-*"], "", [f"evaluation.origins={runs}/origins"])
