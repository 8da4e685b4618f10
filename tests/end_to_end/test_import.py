"""An imported translator is a model folder like any other: it is exported and fine-tuned."""

import json
import math
from pathlib import Path

import pytest
import torch

from mtkit.data.prepare import prepare
from mtkit.inference.translator import Translator
from mtkit.model.card import CARD_FILE
from mtkit.model.folder import load_model_folder
from mtkit.pipeline.export import export, open_folder
from mtkit.pipeline.import_model import import_model
from mtkit.recipe import load_recipe
from mtkit.training.train import train
from mtkit.workspace import Workspace

from ..public_models import ENGLISH, GERMAN, make_marian

RECIPE = """\
name = "captions"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
source = "train.en"
target = "train.de"
tag = ">>deu<<"
[data.dev]
source = "dev.en"
target = "dev.de"
tag = ">>deu<<"
[data.cleaning]
max_tokens = 64
overlap.enabled = false
[tokenizer]
user_symbols = ["<drug>"]
[model]
num_encoder_layers = 2
num_decoder_layers = 3
d_model = 32
d_ff = 48
num_heads = 4
activation = "silu"
sinusoids = "halves"
output_bias = true
[training]
max_steps = 4
batch_tokens = 128
length_groups = 1
micro_batch_tokens = 128
checkpoint_every = 4
schedule = { kind = "linear", peak = 1e-3, warmup_steps = 2 }
[training.start_from]
model = "imported"
[inference]
max_extra_tokens = 4
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a public model, what was made of it, and text."""
    folder = tmp_path_factory.mktemp("project")
    make_marian(folder / "public")
    card = folder / "public" / CARD_FILE
    card.write_text("---\nlicense: cc-by-nc-4.0\n---\n", "utf-8")
    import_model(str(folder / "public"), folder / "imported")
    for name, lines in (("en", ENGLISH), ("de", GERMAN)):
        for split in ("train", "dev"):
            (folder / f"{split}.{name}").write_text("".join(f"{one}\n" for one in lines), "utf-8")
    (folder / "captions.toml").write_text(RECIPE, "utf-8")
    return folder


def test_an_ensemble_of_a_model_with_itself_translates_as_one(project):
    one = Translator(project / "imported").translate(ENGLISH)
    two = Translator([project / "imported"] * 2).translate(ENGLISH)
    assert one == two


def test_exported_it_translates_the_same(project, tmp_path):
    pytest.importorskip("ctranslate2")
    lines = tmp_path / "lines.en"
    lines.write_text("".join(f"{line}\n" for line in ENGLISH), "utf-8")
    export(open_folder(project / "imported", lines_file=lines), tmp_path / "export")
    card = (tmp_path / "export" / CARD_FILE).read_text("utf-8")
    assert " 0 by more; scores of the same output differ" in card
    # The licence travels.
    assert "license: cc-by-nc-4.0" in card


def test_fine_tuned_it_keeps_its_pieces_and_its_licence(project):
    recipe = load_recipe(project / "captions.toml", [f"data.data_root={project}"])
    workspace = Workspace(project / "run")
    prepare(recipe, workspace)
    assert train(recipe, workspace, device="cpu")
    start, tuned = load_model_folder(project / "imported"), load_model_folder(workspace.model)
    pieces = start.tokenizer.target_vocabulary.pieces
    assert tuned.tokenizer.target_vocabulary.pieces == (*pieces, "<drug>")
    assert tuned.tokenizer.looks_up_unknown
    # Learned from where the other ended: four updates don't lead far.
    before = start.translator.decoder.state_dict()
    for name, weight in tuned.translator.decoder.state_dict().items():
        assert (weight - before[name]).abs().max() < 0.01
        assert not torch.equal(weight, before[name])
    assert "license: cc-by-nc-4.0" in (workspace.model / CARD_FILE).read_text("utf-8")
    logged = [json.loads(line) for line in workspace.metrics_file.read_text().splitlines()]
    assert all(math.isfinite(line["loss"]) for line in logged if "loss" in line)
    assert Translator(workspace.model).translate(">>deu<< A dog.")
