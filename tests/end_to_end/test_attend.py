"""`mtkit attend`, by the command."""

import json
import subprocess

import pytest
from typer.testing import CliRunner, Result

from mtkit.cli.app import app

from .. import warm


def call(command: list[str], text: str) -> Result:
    """Runs a command in this process, which has loaded all it needs."""
    return CliRunner().invoke(app, command[3:], input=text)


@pytest.fixture(scope="module")
def lines() -> str:
    return "the man sleeps .\n\nA book (new) & <old> 日本\n"


def test_figures_page_picture_and_numbers(tiny_run, lines: str) -> None:
    run = tiny_run("training.max_steps=2", "training.averaging.num_checkpoints=1")
    assert run.train()
    folder = run.workspace.root
    command = [*run.cold_command("attend"), "--page", f"{folder}/page.html"]
    command += ["--picture", f"{folder}/heads.png", "--numbers", f"{folder}/numbers.json"]
    forked = [*warm.command(), *command[3:]]
    shown = subprocess.run(forked, capture_output=True, text=True, check=False, input=lines)
    assert shown.returncode == 0, shown.stderr
    header, *rows = [line.split("\t") for line in shown.stdout.splitlines()]
    assert header == [
        *("attention", "layer", "head", "distance", "offset", "entropy", "confidence", "to ends")
    ]
    model = run.recipe.model
    layers = 2 * model.num_decoder_layers + model.num_encoder_layers
    assert len(rows) == layers * model.num_heads
    content = json.loads((folder / "numbers.json").read_text("utf-8"))
    assert [line["source"] for line in content["lines"]] == [
        line for line in lines.split("\n") if line
    ]
    for line in content["lines"]:
        for of_layer in line["cross"]:
            for head in of_layer:
                assert len(head) == len(line["target_pieces"])
                assert all(sum(row) == pytest.approx(1.0, abs=1e-5) for row in head)
    assert (folder / "heads.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "page.html").read_text("utf-8")
    # A translation that is given is what is looked at.
    plain = [*run.cold_command("attend"), "--numbers", f"{folder}/numbers.json"]
    given = call([*plain, "--input", "tsv"], "the man sleeps .\tder Mann\n")
    assert given.exit_code == 0, given.stderr
    [line] = json.loads((folder / "numbers.json").read_text("utf-8"))["lines"]
    assert line["target"] == "der Mann"

    for options, text, fault in (
        ([], "", "no lines on stdin"),
        (["--head", "cross.9", "--picture", f"{folder}/heads.png"], "a\n", "no layer 9; there are"),
        (["--head", "sideways"], "a\n", "--head sideways: expected encoder, decoder, cross"),
        (["--numbers", "x.txt"], "a\n", "--numbers x.txt: unknown file extension"),
        (["--page", "/absent/x.html"], "a\n", "no folder /absent"),
        ([], "a\tb\tc\n", None),
    ):
        refused = call([*plain, *options], text)
        if fault is None:
            assert refused.exit_code == 0, refused.stderr
        else:
            assert refused.exit_code == 1
            assert fault in refused.stderr


def test_a_language_model_is_refused(tiny_run_of) -> None:
    run = tiny_run_of("causal-lm", "training.max_steps=1", "training.averaging.num_checkpoints=1")
    assert run.train()
    refused = call(run.cold_command("attend"), "a\n")
    assert refused.exit_code == 1
    assert "isn't an encoder-decoder translator or parser" in refused.stderr
