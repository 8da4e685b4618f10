"""As many lines come out as go in, whatever they are; the script beside this does it at length."""

from pathlib import Path

import pytest

from mtkit.model.build import build
from mtkit.model.config import ModelConfig
from mtkit.model.folder import save_model_folder
from mtkit.model.weights import pack_weights
from mtkit.text.tokenizer import SubwordTokenizer

from .. import warm
from .nasty_lines import find_faults, make_lines, pass_through


@pytest.fixture
def model(tiny_run, tmp_path: Path) -> Path:
    """A model folder with random weights, whose outputs are long and odd."""
    run = tiny_run()
    tokenizer = SubwordTokenizer.load(run.workspace.tokenizer)
    network = build(ModelConfig.of(run.recipe, tokenizer))
    save_model_folder(
        tmp_path / "model",
        recipe=run.recipe,
        weights=pack_weights(network),
        tokenizer=tokenizer,
        origin="chance",
    )
    return tmp_path / "model"


@pytest.mark.slow
def test_as_many_lines_come_out_as_go_in(model: Path, tmp_path: Path) -> None:
    source = tmp_path / "nasty"
    lines = list(make_lines(150, long_share=0.0, long_characters=6_000))
    # The last line has no newline.
    source.write_bytes(b"\n".join([*lines, b"the end"]))
    options = ["--model", str(model)]
    for setting in ("beam_size=1", "max_extra_tokens=0", "max_source_tokens=64"):
        options += ["--set", f"inference.{setting}"]
    command = warm.command()
    file = pass_through(source, *options, command=command)
    pipe = pass_through(source, *options, as_pipe=True, command=command)
    as_json = pass_through(source, *options, "--json", command=command)
    assert find_faults([*lines, b"the end"], file, pipe, as_json) == []
    # Lines that were cut in parts, and bytes that were replaced, are told of.
    assert "input line 1: " in file.errors
    assert "translated in " in file.errors
    assert "is invalid UTF-8: replaced" in file.errors
