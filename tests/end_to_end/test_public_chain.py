"""A model that was trained here goes to transformers, comes back, and is trained further."""

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file

from mtkit.data.prepare import prepare
from mtkit.inference.translator import Translator
from mtkit.pipeline.export import export, open_folder
from mtkit.pipeline.import_model import import_model
from mtkit.recipe import load_recipe
from mtkit.training.train import train
from mtkit.workspace import Workspace

from ..public_models import ENGLISH, GERMAN

RECIPE = """\
name = "captions"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
source = "train.en"
target = "train.de"
[data.dev]
source = "train.en"
target = "train.de"
[data.cleaning]
overlap.enabled = false
[tokenizer]
vocab_size = 150
[model]
num_encoder_layers = 2
num_decoder_layers = 2
d_model = 32
d_ff = 48
num_heads = 4
dropout = 0.0
activation = "silu"
sinusoids = "halves"
output_bias = true
[training]
max_steps = 30
batch_tokens = 256
length_groups = 1
micro_batch_tokens = 256
checkpoint_every = 30
precision = "fp32"
schedule = { kind = "linear", peak = 1e-2, warmup_steps = 2 }
averaging = { choose = "last", num_checkpoints = 1 }
[inference]
beam_size = 2
length_penalty = { kind = "power", alpha = 1.0 }
max_output_tokens = 30
precision = "fp32"
processes = 1
"""


def _run(folder: Path, name: str, *overrides: str) -> tuple[Workspace, list[float]]:
    """Trains a model; returns its run, and its losses on the development set."""
    recipe = load_recipe(folder / "captions.toml", [f"data.data_root={folder}", *overrides])
    workspace = Workspace(folder / name)
    prepare(recipe, workspace)
    assert train(recipe, workspace, device="cpu")
    lines = map(json.loads, workspace.metrics_file.read_text("utf-8").splitlines())
    return workspace, [line["loss"] for line in lines if line["kind"] == "dev"]


def test_out_and_in_and_trained_further(tmp_path):
    for name, lines in (("en", ENGLISH), ("de", GERMAN)):
        (tmp_path / f"train.{name}").write_text("".join(f"{one}\n" for one in lines), "utf-8")
    (tmp_path / "captions.toml").write_text(RECIPE, "utf-8")
    first, losses = _run(tmp_path, "first")
    export(
        open_folder(first.model, lines_file=tmp_path / "train.en"),
        tmp_path / "out",
        form="transformers",
    )
    import_model(str(tmp_path / "out"), tmp_path / "back")
    # As it was: the same weights, and the same text.
    before, after = (
        load_file(folder / "model.safetensors") for folder in (first.model, tmp_path / "back")
    )
    assert before.keys() == after.keys()
    assert all(before[name].equal(after[name]) for name in before)
    ours, again = (
        Translator(folder).translate(ENGLISH) for folder in (first.model, tmp_path / "back")
    )
    assert ours == again
    # One update at next to no rate: the loss is where the first training left it.
    start = f"training.start_from.model={tmp_path / 'back'}"
    at_rest = ["training.schedule.peak=1e-9", "training.max_steps=1", "training.checkpoint_every=1"]
    _, [loss] = _run(tmp_path, "rest", start, *at_rest)
    assert loss == pytest.approx(losses[-1], abs=1e-4)
    # And it goes on falling.
    _, further = _run(tmp_path, "further", start)
    assert further[-1] < losses[-1] - 0.3
