"""`mtkit export` as it is typed: what it compares on, where it puts the model, what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mtkit.cli.app import app


def run(*arguments: object, command: str = "export", stdin: str = "") -> Any:
    arguments = (command, *map(str, arguments))
    return CliRunner().invoke(app, list(arguments), prog_name="mtkit", input=stdin)


@pytest.fixture
def trained(tiny_run, kept: Path):
    """A run with a model of one update."""
    run = tiny_run("training.max_steps=1")
    run.train_once(kept)
    return run


def test_a_run_is_exported_into_its_workspace_and_compared_on_the_development_set(trained) -> None:
    result = run(*trained.options, "--set", "inference.beam_size=3")
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    assert " of 20 lines, 0 differ only by near-ties" in result.stderr
    assert "against the references: mtkit " in result.stderr
    record = trained.workspace.read_manifest()["export"]
    assert record["quantization"] == "float32"
    assert "ctranslate2" in record["environment"]


def test_an_export_is_for_its_own_program(trained) -> None:
    assert run(*trained.options, "--set", "inference.beam_size=1").exit_code == 0
    refused = run("--model", trained.workspace.export, command="translate", stdin="A man.\n")
    assert refused.exit_code == 1
    assert "exported for CTranslate2, which mtkit can't load" in refused.stderr


def test_a_model_folder_is_exported_anywhere_and_compared_on_a_file(trained, tmp_path) -> None:
    (tmp_path / "some.txt").write_text("The man sleeps.\n\nThe woman buys an apple.\n")
    result = run(
        "--model", trained.workspace.model, "-o", tmp_path / "small", "-q", "int8",
        "--lines", tmp_path / "some.txt", "--set", "inference.max_extra_tokens=1",
    )  # fmt: skip
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    assert "int8: translating 2 lines with both engines" in result.stderr
    assert "references" not in result.stderr


def test_the_phrasebook_stands_in_for_text_of_its_languages(trained, tmp_path) -> None:
    arguments = ["--model", trained.workspace.model, "--output", tmp_path / "out"]
    arguments += ["--set", "inference.beam_size=1"]
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    assert "comparing on the embedded phrasebook" in result.stderr
    assert "translating 200 lines" in result.stderr

    config = trained.workspace.model / "config.json"
    facts = {**json.loads(config.read_text()), "source_language": "fi"}
    config.write_text(json.dumps(facts))
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.stderr == (
        "error: no text to compare the engines on\n"
        "hint: give a file of fi sentences with --lines FILE\n"
    )


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--model", "m"], "--model needs --output"),
        (
            ["--model", "m", "--output", "o", "--recipe", "r"],
            "--model can't be combined with --recipe",
        ),
    ],
)
def test_options_that_lack_or_exclude_others(arguments: list[str], fault: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert fault in result.stderr


def test_a_run_without_a_model(tiny_run) -> None:
    result = run(*tiny_run().options)
    assert result.exit_code == 1
    assert "no model here" in result.stderr
