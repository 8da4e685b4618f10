"""A metric's way: imported, it chooses the checkpoint, the translation, and scores them."""

import json
from pathlib import Path

import pytest

from mtkit.inference.learned_metric import open_metric
from mtkit.pipeline.import_model import import_model
from mtkit.pipeline.score import score
from mtkit.recipe import load_recipe
from mtkit.training.averaging.average import average
from mtkit.training.metrics import read_metrics

from ..command import run_here
from ..learned_metrics import write_metric


@pytest.fixture
def metric(tmp_path: Path) -> Path:
    published = write_metric(tmp_path / "da")
    import_model(str(published), tmp_path / "metric", encoder=str(published / "encoder"))
    return tmp_path / "metric"


@pytest.mark.slow
def test_it_chooses_and_scores(tiny_run, metric: Path, capsys) -> None:
    run = tiny_run(
        f"training.validation.metric={metric}",
        "training.max_steps=4",
        "training.checkpoint_every=2",
    )
    assert run.train()
    [last] = [line for line in read_metrics(run.workspace.metrics_file) if line["kind"] == "dev"][
        -1:
    ]
    assert isinstance(last["comet"], float)
    average(run.recipe, run.workspace, choose="last", num_checkpoints=2)
    record = capsys.readouterr().err
    assert "development COMET" in record

    overrides = [
        f'evaluation.metrics=["bleu", "{metric}"]',
        f"inference.rerank.metric={metric}",
        'evaluation.test_sets=[{name = "few", builtin = "phrasebook", sentences = 20}]',
    ]
    recipe = load_recipe(run.options[1], overrides)
    [scored] = score(recipe, run.workspace)
    assert f'inference.rerank.metric = "{metric}" chose the translations' in capsys.readouterr().err
    [system] = scored.evaluated.systems
    assert [each.name for each in system.scores] == ["BLEU", "COMET"]
    rows = zip(
        scored.text.sources or (), scored.systems["tiny"], scored.text.references[0], strict=True
    )
    # The mean of what the metric itself says about the translations that were written.
    expected = 100.0 * open_metric(str(metric)).score(list(rows)).mean()
    assert system.scores[1].value == pytest.approx(expected, abs=1e-6)
    saved = json.loads(run.workspace.scores_file.read_text())
    assert saved["rerank_metric"] in saved["scores"][1]["signature"]


def test_translations_without_references_are_scored_by_a_metric_that_needs_none(
    tmp_path: Path,
) -> None:
    published = write_metric(tmp_path / "kiwi", "kiwi")
    import_model(str(published), tmp_path / "metric", encoder=str(published / "encoder"))
    sources, good, poor = ["ein hund", "das haus"], ["a dog", "the house"], ["a", "b"]
    for name, lines in (("src", sources), ("a", good), ("b", poor)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    chosen = f'evaluation.metrics=["{tmp_path / "metric"}"]'
    files = ("--hypothesis", "a", "--hypothesis", "b", "--source", "src")
    done = run_here(tmp_path, "score", *files, "--set", chosen, "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    opened = open_metric(str(tmp_path / "metric"))
    for row, lines in zip(rows, (good, poor), strict=True):
        scores = opened.score([(*pair, "") for pair in zip(sources, lines, strict=True)])
        assert row["metric"] == "CometKiwi"
        assert row["value"] == pytest.approx(100.0 * scores.mean())
    assert rows[1]["difference"]["value"] == pytest.approx(rows[1]["value"] - rows[0]["value"])

    # A report lists the flagged lines also then. What needs references is named.
    both = f'evaluation.metrics=["bleu", "{tmp_path / "metric"}"]'
    done = run_here(tmp_path, "score", *files, "--set", both, "--json", "--report", "flags.json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == rows
    assert "not computed without references: bleu" in done.stderr
    systems = json.loads((tmp_path / "flags.json").read_text())["systems"]
    assert [system["system"] for system in systems] == ["a", "b"]

    published = write_metric(tmp_path / "da")
    import_model(str(published), tmp_path / "other", encoder=str(published / "encoder"))
    chosen = f'evaluation.metrics=["{tmp_path / "other"}"]'
    done = run_here(tmp_path, "score", *files, "--set", chosen)
    assert (done.returncode, "needs references" in done.stderr) == (1, True)
