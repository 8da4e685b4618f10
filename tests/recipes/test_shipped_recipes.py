"""Every shipped recipe loads, is documented, and says what its paper says."""

import tomllib
from functools import partial
from math import prod
from pathlib import Path

import pytest
import torch
from torch import nn

from mtkit.model.parameters import list_shapes
from mtkit.network import EncoderDecoder
from mtkit.pipeline.init import init
from mtkit.recipe import load_recipe, shipped_recipes
from mtkit.recipe.cleaning import Filter
from mtkit.recipe.training import (
    CosineSchedule,
    InverseSquareRootSchedule,
    LinearSchedule,
    PaperSchedule,
)
from mtkit.training.schedule import learning_rate

NAMES = sorted(shipped_recipes())


def test_these_are_shipped() -> None:
    assert NAMES == [
        "bert-base",
        "bert-large",
        "bert-small",
        "gpt-base",
        "gpt-small",
        "gum-parsing",
        "iwslt14-de-en",
        "mixed-en-de",
        "mixed-en-de-small",
        "multi30k-en-de",
        "multi30k-en-de-paper",
        "nllb-new-language",
        "opus-mt-finetune",
        "own-corpus",
        "phrasebook-en-de",
        "ted-pt-en",
        "ted-pt-en-tutorial",
        "wmt14-en-de-base",
        "wmt14-en-de-big",
        "wmt14-en-de-deep",
        "wmt14-en-fr-base",
        "wmt14-en-fr-big",
        "wsj-parsing",
        "wsj-parsing-semi",
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
    # Table 3, rows "base" and "big"; pieces: section 5.1; seconds a step: section 5.2; checkpoints
    # averaged, and big's dropout for French: section 6.1.
    ("name", "table_3", "pieces", "seconds", "averaged"),
    [
        ("wmt14-en-de-base", (6, 512, 2048, 8, 64, 64, 0.1, 0.1, 100_000), 37_000, 0.4, 5),
        ("wmt14-en-de-big", (6, 1024, 4096, 16, 64, 64, 0.3, 0.1, 300_000), 37_000, 1.0, 20),
        ("wmt14-en-fr-base", (6, 512, 2048, 8, 64, 64, 0.1, 0.1, 100_000), 32_000, 0.4, 5),
        ("wmt14-en-fr-big", (6, 1024, 4096, 16, 64, 64, 0.1, 0.1, 300_000), 32_000, 1.0, 20),
    ],
)
def test_wmt14_is_the_papers(
    name: str, table_3: tuple, pieces: int, seconds: float, averaged: int
) -> None:
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
    assert (recipe.tokenizer.vocab_size, recipe.tokenizer.joint) == (pieces, True)
    assert training.batch_tokens == 25_000
    assert (adam.beta1, adam.beta2, adam.epsilon, adam.weight_decay) == (0.9, 0.98, 1e-9, 0.0)
    assert training.schedule == PaperSchedule(warmup_steps=4_000)
    assert (training.clipping, training.early_stopping) == (None, None)
    # Section 6.1: "written at 10-minute intervals", at the steps' length in section 5.2.
    assert training.checkpoint_every * seconds == 10 * 60
    assert training.checkpoint_minutes is None
    assert training.averaging.num_checkpoints == averaged <= training.keep_last
    # The mean that the paper names is what is released, be it worse than a checkpoint alone.
    assert (training.averaging.choose, training.averaging.if_worse) == ("last", "warn")
    inference = recipe.inference
    assert (inference.beam_size, inference.max_extra_tokens) == (4, 50)
    assert (inference.length_penalty.kind, inference.length_penalty.alpha) == ("gnmt", 0.6)


@pytest.mark.parametrize(
    "name",
    [
        "iwslt14-de-en",
        "multi30k-en-de-paper",
        "wmt14-en-de-base",
        "wmt14-en-de-big",
        "wmt14-en-de-deep",
        "wmt14-en-fr-base",
        "wmt14-en-fr-big",
        "wsj-parsing",
        "wsj-parsing-semi",
    ],
)
def test_recipes_of_papers_release_the_mean_that_the_paper_names(name: str) -> None:
    assert load_recipe(name).training.averaging.if_worse == "warn"


@pytest.mark.parametrize("direction", ["en-de", "en-fr"])
def test_wmt14_reads_the_hubs_splits(direction: str) -> None:
    # newstest2013 is the validation split of wmt/wmt14, newstest2014 its test split.
    for size in ("base", "big"):
        recipe = load_recipe(f"wmt14-{direction}-{size}")
        [train], [test] = recipe.data.train, recipe.evaluation.test_sets
        corpora = (train, recipe.data.dev, test)
        configuration = f"{direction[3:]}-en"
        assert {(corpus.dataset, corpus.configuration) for corpus in corpora} == {
            ("wmt/wmt14", configuration)
        }
        assert [corpus.split for corpus in corpora] == ["train", "validation", "test"]
        assert (recipe.data.source_language, recipe.data.target_language) == (
            "en",
            direction[3:],
        )


@pytest.mark.parametrize(
    ("name", "pieces"), [("wsj-parsing", 16_000), ("wsj-parsing-semi", 32_000)]
)
def test_parsing_is_the_papers(name: str, pieces: int) -> None:
    # arXiv 1706.03762, section 6.3; what it doesn't state is the base model's.
    recipe, base = load_recipe(name), load_recipe("wmt14-en-de-base")
    assert recipe.tokenizer.vocab_size == pieces
    layers = (recipe.model.num_encoder_layers, recipe.model.num_decoder_layers)
    assert (layers, recipe.model.d_model) == ((4, 4), 1024)
    for key in ("d_ff", "num_heads", "norm", "activation", "positions"):
        assert getattr(recipe.model, key) == getattr(base.model, key)
    for key in ("batch_tokens", "label_smoothing", "optimizer"):
        assert getattr(recipe.training, key) == getattr(base.training, key)
    inference = recipe.inference
    assert (inference.beam_size, inference.max_extra_tokens) == (21, 300)
    assert (inference.length_penalty.kind, inference.length_penalty.alpha) == ("gnmt", 0.3)
    assert recipe.evaluation.metrics == ("parseval",)


def test_all_of_wmt14_is_kept() -> None:
    for name in NAMES:
        if name.startswith("wmt14") and name != "wmt14-en-de-deep":
            cleaning = load_recipe(name).data.cleaning
            filters = [each for _, each in cleaning if isinstance(each, Filter)]
            assert len(filters) == 12
            assert not any(each.enabled for each in filters)


def test_the_tiny_model_is_that_of_wu_et_al() -> None:
    # arXiv 2105.14462: 4+4 layers, 128, 256, 4 heads, dropout 0.3; with their 9,709 types it has
    # 2.6 million parameters.
    model = load_recipe("multi30k-en-de-paper").model
    assert model.dropout == 0.3
    network = EncoderDecoder(model, 9_709, 9_709)
    assert round(sum(weight.numel() for weight in network.parameters()) / 1e6, 1) == 2.6


def _weights_per_token(name: str) -> tuple[int, int]:
    """Returns how many weights a source token and a target token are multiplied with."""
    model, pieces = load_recipe(name).model, load_recipe(name).tokenizer.vocab_size
    with torch.device("meta"):
        network = EncoderDecoder(model, pieces, pieces)
    source = target = 0
    for path, module in network.named_modules():
        if isinstance(module, nn.Linear):
            # The decoder's keys and values of the source are made once for each source token.
            of_source = path.startswith("encoder.") or path.endswith("cross_attention.key_value")
            source += module.weight.numel() if of_source else 0
            target += 0 if of_source else module.weight.numel()
    return source, target + network.output_embedding.weight.numel()


def test_the_deep_model_costs_what_base_does() -> None:
    # By hand. Base: encoder layer 4 * 512^2 + 2 * 512 * 2048 = 3,145,728; decoder layer's attention
    # to the source 2 * 512^2 for each source token, and 6 * 512^2 + 2 * 512 * 2048 for each target
    # token; 37,000 * 512 for the output.
    base = (6 * (3_145_728 + 524_288), 6 * 3_670_016 + 18_944_000)
    assert _weights_per_token("wmt14-en-de-base") == base == (22_020_096, 40_964_096)
    # Deep: encoder layer 4 * 512^2 + 3 * 512 * 1024 = 2,621,440; decoder layer 6 * 512^2
    # + 3 * 512 * 1024 for each target token.
    deep = (12 * 2_621_440 + 3 * 524_288, 3 * 3_145_728 + 18_944_000)
    assert _weights_per_token("wmt14-en-de-deep") == deep == (33_030_144, 28_381_184)
    assert round(sum(deep) / sum(base), 3) == 0.975
    readme = (shipped_recipes()["wmt14-en-de-deep"].parent / "README.md").read_text("utf-8")
    for numbers in (base, deep):
        assert f"| {numbers[0]:,} | {numbers[1]:,} | {sum(numbers):,} |" in readme
    # As many updates of as many tokens.
    training, base_training = (
        load_recipe(f"wmt14-en-de-{name}").training for name in ("deep", "base")
    )
    assert training.max_steps == base_training.max_steps
    assert training.batch_tokens == base_training.batch_tokens


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("wmt14")])
def test_the_readme_says_how_many_parameters_there_are(name: str) -> None:
    recipe = load_recipe(name)
    pieces = recipe.tokenizer.vocab_size
    with torch.device("meta"):
        network = EncoderDecoder(recipe.model, pieces, pieces)
    count = sum(parameter.numel() for parameter in network.parameters())
    readme = (shipped_recipes()[name].parent / "README.md").read_text("utf-8")
    [line] = [line for line in readme.splitlines() if line.startswith(f"| `{name}` | ")][:1]
    assert f" {count:,} " in line


def test_iwslt14_is_fairseqs() -> None:
    # transformer_iwslt_de_en and the command in fairseq's examples/translation/README.md.
    recipe = load_recipe("iwslt14-de-en")
    model, training, adam = recipe.model, recipe.training, recipe.training.optimizer
    layers = (model.num_encoder_layers, model.num_decoder_layers)
    assert (*layers, model.d_model, model.d_ff, model.num_heads) == (6, 6, 512, 1024, 4)
    assert (model.norm, model.dropout, model.tied_embeddings) == ("post", 0.3, "decoder")
    assert (adam.beta1, adam.beta2, adam.weight_decay) == (0.9, 0.98, 1e-4)
    assert (training.label_smoothing, training.clipping) == (0.1, None)
    schedule = InverseSquareRootSchedule(kind="inverse-sqrt", peak=5e-4, warmup_steps=4_000)
    assert training.schedule == schedule
    inference = recipe.inference
    assert (inference.beam_size, inference.length_penalty.alpha) == (5, 1.0)
    assert inference.length_penalty.kind == "power"


def _count_language_model(name: str, pieces: int) -> int:
    recipe = load_recipe(name)
    shapes = list_shapes(
        recipe.model,
        pieces,
        pieces,
        objective=recipe.objective,
        next_sentence=recipe.training.masked.next_sentence,
    )
    return sum(prod(shape) for shape in shapes.values())


@pytest.mark.parametrize(
    # Of transformers' classes on the meta device: OpenAIGPTLMHeadModel with 40,478 pieces,
    # BertForPreTraining with 30,522.
    ("name", "pieces", "count"),
    [
        ("gpt-base", 40_478, 116_534_784),
        ("bert-base", 30_522, 110_106_428),
        ("bert-large", 30_522, 336_226_108),
        # By hand: 4 layers of 12 * 256^2 + 13 * 256 numbers, a final norm, 8,000 + 128 vectors.
        ("gpt-small", 8_000, 4 * (12 * 256**2 + 13 * 256) + 512 + 8_128 * 256),
        # The same, two vectors of segments and a norm; a head with its norm; the output's bias.
        (
            "bert-small",
            8_000,
            4 * (12 * 256**2 + 13 * 256) + 512 + 8_130 * 256 + 512 + 256**2 + 768 + 8_000,
        ),
    ],
)
def test_language_models_have_as_many_parameters(name: str, pieces: int, count: int) -> None:
    recipe = load_recipe(name)
    assert recipe.tokenizer.vocab_size == pieces
    assert _count_language_model(name, pieces) == count
    readme = (shipped_recipes()[name].parent / "README.md").read_text("utf-8")
    [line] = [line for line in readme.splitlines() if line.startswith(f"| `{name}`")]
    assert f" {count:,} " in line


def test_gpt_is_the_papers() -> None:
    # Radford et al. 2018, section 4.1, "Model specifications".
    recipe = load_recipe("gpt-base")
    model, training, adam = recipe.model, recipe.training, recipe.training.optimizer
    assert recipe.objective == "causal-lm"
    assert (model.num_decoder_layers, model.d_model, model.num_heads) == (12, 768, 12)
    assert (model.d_ff, model.initial_std) == (3072, 0.02)
    assert (model.dropout, model.attention_dropout) == (0.1, 0.1)
    assert (model.norm, model.activation, model.positions) == ("post", "gelu_tanh", "learned")
    assert (recipe.data.block_tokens, model.max_positions) == (512, 512)
    assert training.batch_tokens == 64 * 512
    assert adam.weight_decay == 0.01
    schedule = training.schedule
    assert schedule == CosineSchedule(kind="cosine", peak=2.5e-4, warmup_steps=2_000, final=0.0)
    rate = partial(learning_rate, schedule, d_model=768, max_steps=training.max_steps)
    assert rate(2_000) == 2.5e-4
    assert rate(1_000) == 1.25e-4
    # Halfway between the end of the rise and the last step, half a cosine is at its middle.
    assert rate((training.max_steps + 2_000) // 2) == pytest.approx(1.25e-4)
    assert rate(training.max_steps) == pytest.approx(0.0, abs=1e-12)
    assert training.label_smoothing == 0.0
    # The cleaning that a book loses lines by is off.
    assert not recipe.data.cleaning.duplicates.enabled


@pytest.mark.parametrize(("name", "sizes"), [("base", (12, 768, 12)), ("large", (24, 1024, 16))])
def test_bert_is_the_papers(name: str, sizes: tuple[int, int, int]) -> None:
    # arXiv 1810.04805, sections 3 and A.2.
    recipe = load_recipe(f"bert-{name}")
    model, training, adam = recipe.model, recipe.training, recipe.training.optimizer
    assert recipe.objective == "masked-lm"
    assert (model.num_encoder_layers, model.d_model, model.num_heads) == sizes
    # "we set the feed-forward/filter size to be 4H".
    assert model.d_ff == 4 * model.d_model
    assert (model.dropout, model.attention_dropout, model.activation) == (0.1, 0.1, "gelu")
    assert (model.embedding_norm, model.norm, model.norm_epsilon) == (True, "post", 1e-12)
    assert (recipe.data.block_tokens, training.max_steps) == (512, 1_000_000)
    assert training.batch_tokens == 256 * 512
    assert (adam.beta1, adam.beta2, adam.weight_decay) == (0.9, 0.999, 0.01)
    schedule = training.schedule
    assert schedule == LinearSchedule(kind="linear", peak=1e-4, warmup_steps=10_000, final=0.0)
    rate = partial(learning_rate, schedule, d_model=768, max_steps=1_000_000)
    assert (rate(5_000), rate(10_000), rate(1_000_000)) == (5e-5, 1e-4, 0.0)
    assert rate(505_000) == pytest.approx(5e-5)
    masking = training.masked
    assert (masking.share, masking.mask, masking.random) == (0.15, 0.8, 0.1)
    assert masking.next_sentence
    # "sequence length of 128 for 90% of the steps".
    assert (masking.short_tokens, masking.short_updates) == (128, 0.9)


def test_every_recipe_file_is_shipped() -> None:
    root = Path(__file__).parents[2] / "recipes"
    assert sorted(tomllib.loads(p.read_text())["name"] for p in root.rglob("*.toml")) == NAMES
