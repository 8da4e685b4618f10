"""A translator started from language models: what a part of theirs computed, it computes again."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mtkit.data.phrasebook import generate_pairs
from mtkit.errors import MtkitError
from mtkit.model.build import build
from mtkit.model.config import ModelConfig
from mtkit.model.folder import save_model_folder
from mtkit.model.weights import pack_weights
from mtkit.network import Network, PaddedLayout
from mtkit.recipe import Recipe
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.train_tokenizer import train_tokenizer
from mtkit.training.start_from import describe_start

from .starts import start_model

PAIRS = list(generate_pairs("train", 200))
TEXTS = [source for source, _ in PAIRS]
SHAPE = (
    "model.num_encoder_layers=2",
    "model.num_decoder_layers=2",
    "model.positions=learned",
    "model.max_positions=64",
    "model.activation=gelu",
    "model.embedding_norm=true",
)
"""One shape for all."""


@pytest.fixture(scope="module")
def vocabulary() -> SubwordTokenizer:
    return train_vocabulary()


def train_vocabulary(**settings) -> SubwordTokenizer:
    chosen = Tokenizer(vocab_size=200, **settings)
    targets = [target for _, target in PAIRS]
    return train_tokenizer(chosen, TEXTS, targets, seed=1, symbols=["<mask>"])


def draw(recipe: Recipe, tokenizer: SubwordTokenizer, seed: int) -> Network:
    """Returns a network in fp64 whose weights are all random, biases and gains too."""
    torch.manual_seed(seed)
    model = build(ModelConfig.of(recipe, tokenizer)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.3)
    return model.double()


@pytest.fixture
def save_start(tiny_run_of, tmp_path: Path) -> Callable[..., Network]:
    """A function that leaves a random model of an objective in a folder named so; returns it."""

    def save(objective: str, tokenizer: SubwordTokenizer, *overrides: str) -> Network:
        lengths = ("data.cleaning.max_tokens=64",) if objective == "translation" else ()
        shape = (*SHAPE, *lengths, *overrides)
        recipe = tiny_run_of(objective, *shape, name=f"run-{objective}").recipe
        model = draw(recipe, tokenizer, seed=1).float()
        save_model_folder(
            tmp_path / objective,
            recipe=recipe,
            weights=pack_weights(model),
            tokenizer=tokenizer,
            origin="chance",
        )
        return model.double()

    return save


@pytest.fixture
def translator(tiny_run, tmp_path: Path) -> Callable[..., Recipe]:
    """A function that returns a translator's recipe; starts are `key=objective` in a set."""

    def make(starts: dict[str, str], *overrides: str) -> Recipe:
        named = (
            f"training.start_from.{key}={tmp_path / objective}" for key, objective in starts.items()
        )
        return tiny_run(*SHAPE, "data.cleaning.max_tokens=64", *overrides, *named).recipe

    return make


def encode_both(masked: Network, model: Network, tokens: torch.Tensor) -> list[torch.Tensor]:
    layout = PaddedLayout.without_padding(tokens)
    with torch.no_grad():
        return [masked(tokens, torch.zeros_like(tokens), layout), model.encode(tokens, layout)]


def decode_both(causal: Network, model: Network, tokens: torch.Tensor) -> list[torch.Tensor]:
    """Returns the logits of a language model, and of a translator that ignores its source."""
    layout = PaddedLayout.without_padding(tokens)
    with torch.no_grad():
        for layer in model.decoder.layers:
            layer.cross_attention.output.weight.zero_()
            layer.cross_attention.output.bias.zero_()
        alone = causal.project(causal(tokens, layout))
        return [alone, model.project(model(tokens, layout, tokens, layout))]


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("tied", ["three-way", "decoder", "none"])
def test_the_encoder_computes_what_the_masked_model_does(
    save_start, translator, vocabulary, capsys, tied: str, norm: str
) -> None:
    masked = save_start("masked-lm", vocabulary, f"model.norm={norm}")
    recipe = translator(
        {"encoder": "masked-lm"}, f"model.tied_embeddings={tied}", f"model.norm={norm}"
    )
    model, chance = (draw(recipe, vocabulary, seed=2) for _ in range(2))
    capsys.readouterr()
    start_model(recipe, model, vocabulary)
    for tokens in vocabulary.encode_source(TEXTS[:5]):
        assert torch.equal(*encode_both(masked, model, torch.tensor([tokens])))
    for name, weight in model.decoder.named_parameters():
        assert torch.equal(weight, chance.decoder.get_parameter(name))
    random = model.target_embedding.positions.weight
    assert torch.equal(random, chance.target_embedding.positions.weight)
    folder = recipe.training.start_from.encoder
    assert capsys.readouterr().err.splitlines() == [
        f"starting the encoder from {folder}, which has 200 of 200 pieces",
        "the decoder starts from random weights",
    ]


@pytest.mark.parametrize("tied", ["three-way", "decoder", "none"])
def test_sinusoidal_positions_leave_the_segment_to_the_pieces(
    save_start, translator, vocabulary, tied: str
) -> None:
    masked = save_start("masked-lm", vocabulary, "model.positions=sinusoidal")
    recipe = translator(
        {"encoder": "masked-lm"}, "model.positions=sinusoidal", f"model.tied_embeddings={tied}"
    )
    model = draw(recipe, vocabulary, seed=2)
    start_model(recipe, model, vocabulary)
    tokens = torch.tensor(vocabulary.encode_source(TEXTS[:1]))
    torch.testing.assert_close(*encode_both(masked, model, tokens), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("tied", ["three-way", "decoder", "none"])
@pytest.mark.parametrize("bias", ["true", "false"])
def test_the_decoder_computes_what_the_causal_model_does(
    save_start, translator, vocabulary, capsys, tied: str, bias: str
) -> None:
    # With the norm before each sub-layer one that adds nothing changes nothing.
    shape = ("model.norm=pre", f"model.output_bias={bias}")
    own = "none" if tied == "none" else "decoder"
    causal = save_start("causal-lm", vocabulary, *shape, f"model.tied_embeddings={own}")
    recipe = translator({"decoder": "causal-lm"}, *shape, f"model.tied_embeddings={tied}")
    model, chance = (draw(recipe, vocabulary, seed=2) for _ in range(2))
    capsys.readouterr()
    start_model(recipe, model, vocabulary)
    for name, weight in model.named_parameters():
        if "cross_attention" in name or name.startswith("encoder."):
            assert torch.equal(weight, chance.get_parameter(name))
    for tokens in vocabulary.encode_target(TEXTS[:5]):
        assert torch.equal(*decode_both(causal, model, torch.tensor([tokens])))
    assert capsys.readouterr().err.splitlines()[1:] == [
        "that model is of en; this run trains it for de",
        "the encoder and the decoder's cross-attention start from random weights",
    ]


@pytest.mark.parametrize("tied", ["decoder", "none"])
def test_two_models_make_one_translator(
    save_start, translator, vocabulary, capsys, tied: str
) -> None:
    shape = ("model.norm=pre",)
    masked = save_start("masked-lm", vocabulary, *shape)
    causal = save_start("causal-lm", vocabulary, *shape)
    starts = {"encoder": "masked-lm", "decoder": "causal-lm"}
    recipe = translator(starts, *shape, f"model.tied_embeddings={tied}")
    model = draw(recipe, vocabulary, seed=2)
    capsys.readouterr()
    start_model(recipe, model, vocabulary)
    tokens = torch.tensor(vocabulary.encode_target(TEXTS[:1]))
    assert torch.equal(*encode_both(masked, model, tokens))
    assert torch.equal(*decode_both(causal, model, tokens))
    # An output of its own begins as a copy of what the causal model projects with.
    output = model.output_embedding.weight
    assert torch.equal(output, causal.target_embedding.tokens.weight)
    assert (output is model.target_embedding.tokens.weight) == (tied == "decoder")
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("starting the encoder from ")
    assert said[1].startswith("starting the decoder from ")
    assert said[-1] == "the decoder's cross-attention starts from random weights"


@pytest.mark.parametrize("tied", ["three-way", "decoder", "none"])
def test_both_sides_of_one_translator_are_that_translator(
    save_start, translator, vocabulary, capsys, tied: str
) -> None:
    shape = (f"model.tied_embeddings={tied}",)
    start = save_start("translation", vocabulary, *shape)
    recipe = translator({"encoder": "translation", "decoder": "translation"}, *shape)
    model = draw(recipe, vocabulary, seed=2)
    capsys.readouterr()
    start_model(recipe, model, vocabulary)
    for name, weight in start.named_parameters():
        assert torch.equal(weight, model.get_parameter(name))
    assert "random" not in capsys.readouterr().err


@pytest.mark.parametrize("keys", [("model",), ("encoder", "decoder")])
def test_fewer_layers_are_spread_from_the_first_to_the_last(
    save_start, translator, vocabulary, capsys, keys: tuple[str, ...]
) -> None:
    deep = ("model.num_encoder_layers=6", "model.num_decoder_layers=6")
    start = save_start("translation", vocabulary, *deep)
    shallow = ("model.num_encoder_layers=3", "model.num_decoder_layers=2")
    recipe = translator(dict.fromkeys(keys, "translation"), *shallow)
    model = draw(recipe, vocabulary, seed=2)
    capsys.readouterr()
    start_model(recipe, model, vocabulary)
    # The layers that the paper's authors take, three and two of six.
    taken = {"encoder": [0, 2, 5], "decoder": [0, 5]}
    for name, weight in model.named_parameters():
        stack, *in_layer = re.split(r"\.layers\.(\d)\.", name)
        if in_layer:
            index, rest = in_layer
            stack += f".layers.{taken[stack][int(index)]}.{rest}"
        assert torch.equal(weight, start.get_parameter(stack))
    said = capsys.readouterr().err
    assert "the encoder starts from 3 of the model's 6 layers: 1, 3, 6\n" in said
    assert "the decoder starts from 2 of the model's 6 layers: 1, 6\n" in said


def test_a_language_model_takes_fewer_layers_of_another(
    save_start, tiny_run_of, vocabulary, tmp_path: Path, capsys
) -> None:
    start = save_start("causal-lm", vocabulary)
    named = (*SHAPE, f"training.start_from.model={tmp_path / 'causal-lm'}")
    recipe = tiny_run_of("causal-lm", *named, "model.num_decoder_layers=1").recipe
    model = draw(recipe, vocabulary, seed=2)
    start_model(recipe, model, vocabulary)
    for name, weight in model.named_parameters():
        assert torch.equal(weight, start.get_parameter(name))
    said = capsys.readouterr().err
    assert "the decoder starts from 1 of the model's 2 layers: 1\n" in said
    assert "encoder" not in said


def test_fewer_layers_are_only_taken_where_the_recipe_sets_them(
    save_start, translator, vocabulary
) -> None:
    save_start("translation", vocabulary, "model.num_encoder_layers=7")
    recipe = translator({"model": "translation"})
    unset = recipe.model.model_fields_set - {"num_encoder_layers"}
    shape = recipe.model.model_copy(update={"num_encoder_layers": 6})
    shape.model_fields_set.intersection_update(unset)
    recipe = recipe.model_copy(update={"model": shape})
    with pytest.raises(MtkitError, match=r"num_encoder_layers = 6, but the model has 7$"):
        start_model(recipe, draw(recipe, vocabulary, seed=2), vocabulary)


def test_low_rank_updates_are_of_all_layers(save_start, translator, vocabulary) -> None:
    save_start("translation", vocabulary)
    lora = ("model.num_decoder_layers=1", "training.lora.rank=2")
    recipe = translator({"model": "translation"}, *lora)
    with pytest.raises(MtkitError, match=r"num_decoder_layers = 1, but the model has 2$"):
        start_model(recipe, draw(recipe, vocabulary, seed=2), vocabulary)


@pytest.mark.parametrize("keys", [("model",), ("encoder", "decoder")])
def test_a_denoising_model_brings_both_sides_and_what_joins_them(
    save_start, translator, vocabulary, capsys, keys: tuple[str, ...]
) -> None:
    start = save_start("denoising", vocabulary)
    recipe = translator(dict.fromkeys(keys, "denoising"))
    model = draw(recipe, vocabulary, seed=2)
    capsys.readouterr()
    start_model(recipe, model, vocabulary)
    names = [name for name, _ in model.named_parameters()]
    assert any("cross_attention" in name for name in names)
    for name in names:
        assert torch.equal(start.get_parameter(name), model.get_parameter(name))
    said = capsys.readouterr().err
    assert "random" not in said
    wanted = "en-de" if keys == ("model",) else "de"
    assert f"that model is of en; this run trains it for {wanted}" in said


def test_a_decoder_of_a_translator_brings_its_attention_to_the_source(
    save_start, translator, vocabulary, capsys
) -> None:
    start = save_start("translation", vocabulary)
    recipe = translator({"decoder": "translation"}, "model.tied_embeddings=decoder")
    model, chance = (draw(recipe, vocabulary, seed=2) for _ in range(2))
    capsys.readouterr()
    start_model(recipe, model, vocabulary)
    for name, weight in start.decoder.named_parameters():
        assert torch.equal(weight, model.decoder.get_parameter(name))
    # The start shares one matrix of all, under another name; here the source has its own.
    theirs = start.source_embedding.tokens.weight
    assert torch.equal(model.target_embedding.tokens.weight, theirs)
    ours = model.source_embedding.tokens.weight
    assert torch.equal(ours, chance.source_embedding.tokens.weight)
    assert capsys.readouterr().err.splitlines()[-1] == "the encoder starts from random weights"


def test_new_vocabularies_take_vectors_by_piece_and_side(
    save_start, translator, vocabulary, capsys
) -> None:
    masked = save_start("masked-lm", vocabulary)
    causal = save_start("causal-lm", vocabulary)
    new = train_vocabulary(joint=False, kind="unigram")
    recipe = translator(
        {"encoder": "masked-lm", "decoder": "causal-lm"},
        "model.tied_embeddings=decoder",
        "tokenizer.joint=false",
        "training.start_from.vocabulary=new",
    )
    model, chance = (draw(recipe, new, seed=2) for _ in range(2))
    capsys.readouterr()
    start_model(recipe, model, new)
    said = capsys.readouterr().err
    old = vocabulary.source_vocabulary.pieces
    for side, start in (("source", masked), ("target", causal)):
        pieces = getattr(new, f"{side}_vocabulary").pieces
        weight, theirs, random = (
            getattr(one, f"{side}_embedding").tokens.weight for one in (model, start, chance)
        )
        common = [piece for piece in pieces if piece in old]
        assert 30 < len(common) < len(pieces)
        for index, piece in enumerate(pieces):
            row = theirs[old.index(piece)] if piece in old else random[index]
            assert torch.equal(weight[index], row)
        assert f"which has {len(common)} of {len(pieces)} {side} pieces; the others" in said


def test_a_language_model_goes_on_from_another(tiny_run_of, save_start, vocabulary, tmp_path):
    for objective in ("causal-lm", "masked-lm", "denoising"):
        start = save_start(objective, vocabulary)
        start_folder = f"training.start_from.model={tmp_path / objective}"
        recipe = tiny_run_of(objective, *SHAPE, start_folder).recipe
        model = draw(recipe, vocabulary, seed=2)
        start_model(recipe, model, vocabulary)
        for name, weight in start.named_parameters():
            assert torch.equal(weight, model.get_parameter(name)), name


def test_a_decoder_alone_translates_from_a_causal_models_weights(
    tiny_run_of, save_start, vocabulary, tmp_path: Path
) -> None:
    start = save_start("causal-lm", vocabulary)
    shape = (*SHAPE, "data.cleaning.max_tokens=32")
    folder = tmp_path / "causal-lm"
    recipe = tiny_run_of("decoder-only", *shape, f"training.start_from.model={folder}").recipe
    model = draw(recipe, vocabulary, seed=2)
    start_model(recipe, model, vocabulary)
    for name, weight in start.named_parameters():
        assert torch.equal(weight, model.get_parameter(name)), name
    parts = tiny_run_of("decoder-only", *shape, f"training.start_from.decoder={folder}").recipe
    with pytest.raises(MtkitError, match="this recipe's network has only a decoder"):
        start_model(parts, model, vocabulary)


def test_a_card_says_what_started_where(translator, tiny_run, tmp_path: Path) -> None:
    assert describe_start(tiny_run().recipe.training.start_from, "") == {}
    recipe = translator({"model": "translation"})
    root = str(recipe.data.data_root)
    path = recipe.data.data_root / "runs/general/model"
    whole = recipe.training.start_from.model_copy(update={"model": path})
    assert describe_start(whole, root) == {"started from": "`runs/general/model`"}
    parts = translator({"encoder": "masked-lm", "decoder": "causal-lm"})
    assert describe_start(parts.training.start_from, root) == {
        "started from": f"encoder from `{tmp_path}/masked-lm`, decoder from "
        f"`{tmp_path}/causal-lm`, everything else from random weights"
    }


FAULTS = {
    "a causal model as a whole": (
        {"model": "causal-lm"},
        (),
        r"causal-lm: a language model with only a decoder \(training\.start_from\.model\)",
        "name it as training.start_from.decoder",
    ),
    "a causal model as an encoder": (
        {"encoder": "causal-lm"},
        (),
        r"only a decoder \(training\.start_from\.encoder\)",
        "name it as training.start_from.decoder",
    ),
    "a masked model as a whole": (
        {"model": "masked-lm"},
        (),
        r"masked-lm: a language model with only an encoder",
        "name it as training.start_from.encoder",
    ),
    "a masked model as a decoder": (
        {"decoder": "masked-lm"},
        (),
        r"only an encoder \(training\.start_from\.decoder\)",
        "name it as training.start_from.encoder",
    ),
    "one matrix from two models": (
        {"encoder": "masked-lm", "decoder": "causal-lm"},
        (),
        r'model\.tied_embeddings = "three-way" has one matrix for both sides, but \S+masked-lm and '
        r"\S+causal-lm have one each",
        "--set model.tied_embeddings=decoder",
    ),
    "another encoder": (
        {"encoder": "masked-lm"},
        ("model.num_encoder_layers=3", "model.d_ff=64", "model.num_decoder_layers=1"),
        r"model\.num_encoder_layers = 3, but the model has 2; model\.d_ff = 64, but the model has "
        r"32$",
        "--set model.num_encoder_layers=2 --set model.d_ff=32",
    ),
    "another decoder": (
        {"decoder": "causal-lm"},
        ("model.num_encoder_layers=1", "model.output_bias=true", "model.embedding_norm=false"),
        r"differs from the recipe's: model\.embedding_norm = false, but the model has true; model\."
        r"output_bias = true, but the model has false$",
        "--set model.embedding_norm=true --set model.output_bias=false",
    ),
    "no folder": (
        {"encoder": "nothing"},
        (),
        r"nothing: no such folder \(training\.start_from\.encoder\)",
        "name a model folder, such as another run's model/",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_faults_are_told_by_key(save_start, translator, vocabulary, case: str) -> None:
    starts, overrides, message, hint = FAULTS[case]
    for objective in starts.values():
        if objective != "nothing":
            save_start(objective, vocabulary)
    recipe = translator(starts, *overrides)
    model = draw(recipe, vocabulary, seed=2)
    with pytest.raises(MtkitError, match=message) as caught:
        start_model(recipe, model, vocabulary)
    assert caught.value.hint.startswith(hint)


def test_an_output_of_its_own_cannot_become_a_shared_one(
    save_start, translator, vocabulary
) -> None:
    save_start("causal-lm", vocabulary, "model.tied_embeddings=none")
    recipe = translator({"decoder": "causal-lm"}, "model.tied_embeddings=decoder")
    with pytest.raises(MtkitError, match=r"tied_embeddings = decoder, but the model has none$"):
        start_model(recipe, draw(recipe, vocabulary, seed=2), vocabulary)


def test_a_whole_model_and_parts_are_not_for_one_recipe(translator, tiny_run_of) -> None:
    message = "give either model, or encoder or decoder or both"
    with pytest.raises(MtkitError, match=message):
        translator({"model": "translation", "encoder": "masked-lm"})
    with pytest.raises(MtkitError, match=message):
        translator({}, "training.start_from.vocabulary=new")
    with pytest.raises(MtkitError, match='a "causal-lm" model starts from'):
        tiny_run_of("causal-lm", "training.start_from.decoder=somewhere")
