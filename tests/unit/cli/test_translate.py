"""`mtkit translate` in several threads, as it is typed."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mtkit.cli.app import app

_LINES = "".join(f"The man number {number} sleeps.\n" for number in range(40))


def translate(*arguments: object) -> Any:
    return CliRunner().invoke(
        app, ["translate", *map(str, arguments)], prog_name="mtkit", input=_LINES
    )


@pytest.fixture
def trained(tiny_run, kept: Path):
    """A run with a model of one update."""
    run = tiny_run("training.max_steps=1")
    run.train_once(kept)
    return run


def test_any_number_of_threads_translates_the_same(trained) -> None:
    [checkpoint] = trained.workspace.checkpoints.iterdir()
    for options in (
        trained.options,
        ["--model", trained.workspace.model],
        ["--model", checkpoint],
    ):
        alone = translate(*options, "-s", "inference.processes=1")
        assert alone.exit_code == 0, alone.stderr
        together = translate(*options, "-s", "inference.processes=3")
        assert together.stdout == alone.stdout
        assert alone.stdout.count("\n") == 40


def test_model_folders_may_lie_in_a_folder_named_checkpoints(trained, tmp_path: Path) -> None:
    expected = translate("--model", trained.workspace.model)
    for name in ("best", "step-00000001"):
        folder = tmp_path / "checkpoints" / name
        shutil.copytree(trained.workspace.model, folder)
        found = translate("--model", folder)
        assert (found.exit_code, found.stdout) == (0, expected.stdout), found.stderr
    together = translate("--model", folder, "--model", tmp_path / "checkpoints" / "best")
    assert together.exit_code == 0, together.stderr
    # A run is none, wherever it lies, but its model is named.
    run = tmp_path / "checkpoints" / "run"
    shutil.copytree(trained.workspace.root, run)
    refused = translate("--model", run)
    assert refused.exit_code == 1
    assert f"hint: did you mean {run / 'model'}?" in refused.stderr


def test_terms_of_a_glossary_are_used_and_told(trained, tmp_path: Path) -> None:
    terms = tmp_path / 'terms "of" ours.tsv'
    terms.write_text("number 7\tNummer\nsleeps\tschläft nie\n", encoding="utf-8")
    short = ["-s", "inference.max_extra_tokens=2", "-s", "inference.processes=2"]
    options = ["--model", trained.workspace.model, *short]
    plain = translate(*options)
    lines = [*plain.stdout.splitlines()]
    found = translate(*options, "--glossary", terms, "--json")
    assert found.exit_code == 0, found.stderr
    answers = [json.loads(line) for line in found.stdout.splitlines()]
    assert len(answers) == len(lines)
    for number, answer in enumerate(answers):
        assert "schläft nie" in answer["text"]
        assert len(answer["terms"]) == 1 + (number == 7)
    assert "Nummer" in answers[7]["text"]
    # A model of one update goes on with whatever letters, as if a form had an ending.
    uses = Counter(use["use"] for answer in answers for use in answer["terms"])
    told = f"terms: {uses['used']} used, {uses['inflected']} inflected, {uses['missed']} missed"
    assert told in found.stderr
    # Where no line has a term, all is as it was.
    terms.write_text("zebra\tZebra\n", encoding="utf-8")
    assert translate(*options, "--glossary", terms).stdout == plain.stdout


def test_a_faulty_glossary_is_told_before_a_line_is_read(trained, tmp_path: Path) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("number\n", encoding="utf-8")
    found = translate("--model", trained.workspace.model, "--glossary", terms)
    assert (found.exit_code, found.stdout) == (1, "")
    assert f"{terms}:1: one column" in found.stderr.replace("\n", "")
    found = translate("--model", "http://127.0.0.1:9", "--glossary", terms)
    assert found.exit_code == 1
    assert "--glossary doesn't work with a server" in found.stderr
    assert translate("--score-only", "--glossary", terms).exit_code == 2
