"""Every shipped recipe loads, is documented, and says what its paper says."""

import tomllib
from pathlib import Path

import pytest

from mtkit.model import EncoderDecoder
from mtkit.pipeline.init import init
from mtkit.recipe import load_recipe, shipped_recipes
from mtkit.recipe.training import PaperSchedule

NAMES = sorted(shipped_recipes())


def test_these_are_shipped() -> None:
    assert NAMES == [
        "mixed-en-de",
        "mixed-en-de-small",
        "multi30k-en-de",
        "multi30k-en-de-paper",
        "phrasebook-en-de",
        "wmt14-en-de-base",
        "wmt14-en-de-big",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_it_loads_by_its_name_and_is_called_so(name: str) -> None:
    assert load_recipe(name).name == name


@pytest.mark.parametrize("name", NAMES)
def test_its_folder_says_what_to_expect(name: str) -> None:
    readme = (shipped_recipes()[name].parent / "README.md").read_text("utf-8")
    assert f"`{name}`" in readme


@pytest.mark.parametrize("name", NAMES)
def test_a_project_started_from_it_is_the_same_run(name: str, tmp_path: Path, monkeypatch) -> None:
    path = init(name, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert load_recipe(path) == load_recipe(name)


@pytest.mark.parametrize(
    # Layers, d_model, d_ff, heads, d_k, d_v, dropout, label smoothing, steps: arXiv 1706.03762,
    # Table 3, rows "base" and "big"; checkpoints averaged: section 6.1.
    ("name", "table_3", "averaged"),
    [
        ("wmt14-en-de-base", (6, 512, 2048, 8, 64, 64, 0.1, 0.1, 100_000), 5),
        ("wmt14-en-de-big", (6, 1024, 4096, 16, 64, 64, 0.3, 0.1, 300_000), 20),
    ],
)
def test_wmt14_is_the_papers(name: str, table_3: tuple, averaged: int) -> None:
    recipe = load_recipe(name)
    model, training, adam = recipe.model, recipe.training, recipe.training.optimizer
    assert (
        model.num_encoder_layers,
        model.d_model,
        model.d_ff,
        model.num_heads,
        model.d_key,
        model.d_value,
        model.dropout,
        training.label_smoothing,
        training.max_steps,
    ) == table_3
    assert model.num_decoder_layers == model.num_encoder_layers
    assert (model.norm, model.activation, model.positions) == ("post", "relu", "sinusoidal")
    assert (model.attention_dropout, model.activation_dropout) == (0.0, 0.0)
    assert model.tied_embeddings == "three-way"
    # Section 5.1 and 5.3.
    assert recipe.tokenizer.vocab_size == 37_000
    assert training.batch_tokens == 25_000
    assert (adam.beta1, adam.beta2, adam.epsilon, adam.weight_decay) == (0.9, 0.98, 1e-9, 0.0)
    assert training.schedule == PaperSchedule(warmup_steps=4_000)
    assert (training.clipping, training.early_stopping) == (None, None)
    # Section 6.1.
    assert training.averaging.num_checkpoints == averaged <= training.keep_last
    assert training.averaging.choose == "last"
    inference = recipe.inference
    assert (inference.beam_size, inference.max_extra_tokens) == (4, 50)
    assert (inference.length_penalty.kind, inference.length_penalty.alpha) == ("gnmt", 0.6)


def test_the_tiny_model_is_that_of_wu_et_al() -> None:
    # arXiv 2105.14462: 4+4 layers, 128, 256, 4 heads, dropout 0.3; with their 9,709 types it has
    # 2.6 million parameters.
    model = load_recipe("multi30k-en-de-paper").model
    assert model.dropout == 0.3
    network = EncoderDecoder(model, 9_709, 9_709)
    assert round(sum(weight.numel() for weight in network.parameters()) / 1e6, 1) == 2.6


def test_every_recipe_file_is_shipped() -> None:
    root = Path(__file__).parents[2] / "recipes"
    assert sorted(tomllib.loads(p.read_text())["name"] for p in root.rglob("*.toml")) == NAMES
