"""Weights taken over from another model: every row where its piece stands, checked by hand."""

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
from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.recipe import Recipe
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.extend_vocabulary import extend_vocabulary
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.train_tokenizer import train_tokenizer

from .starts import start_model

PAIRS = list(generate_pairs("train", 200))
SOURCES = [source for source, _ in PAIRS]
TARGETS = [target for _, target in PAIRS]
TWO = ("tokenizer.joint=false", "model.tied_embeddings=decoder")
SHORT = ("data.cleaning.max_tokens=20", "model.positions=learned")


def train_vocabulary(size: int = 200, **settings) -> SubwordTokenizer:
    return train_tokenizer(Tokenizer(vocab_size=size, **settings), SOURCES, TARGETS, seed=1)


def build_drawn(recipe: Recipe, tokenizer: SubwordTokenizer, seed: int) -> EncoderDecoder:
    torch.manual_seed(seed)
    return build(ModelConfig.of(recipe, tokenizer)).eval()


@pytest.fixture
def make_start(tiny_run, tmp_path: Path) -> Callable[..., EncoderDecoder]:
    """A function that leaves a model of chance in `start`, and returns it."""

    def make(tokenizer: SubwordTokenizer, *overrides: str) -> EncoderDecoder:
        recipe = tiny_run(*overrides).recipe
        model = build_drawn(recipe, tokenizer, seed=1)
        save_model_folder(
            tmp_path / "start",
            recipe=recipe,
            weights=pack_weights(model),
            tokenizer=tokenizer,
            origin="chance",
        )
        return model

    return make


@pytest.fixture
def open_recipe(tiny_run, tmp_path: Path) -> Callable[..., Recipe]:
    """A function that returns the tiny recipe with `start` to start from."""
    return lambda *overrides: (
        tiny_run(f"training.start_from.model={tmp_path / 'start'}", *overrides).recipe
    )


@pytest.mark.parametrize("tied", ["three-way", "decoder", "none"])
def test_the_same_vocabulary_gives_the_same_logits(
    make_start, open_recipe, capsys, tied: str
) -> None:
    vocabulary = train_vocabulary(joint=tied == "three-way")
    overrides = (f"tokenizer.joint={str(tied == 'three-way').lower()}",)
    overrides += (f"model.tied_embeddings={tied}",)
    start = make_start(vocabulary, *overrides)
    # No weight's shape or use depends on dropout, or on what random weights are drawn from.
    others = "model.dropout=0.5", "model.attention_dropout=0.0", "model.initial_std=0.02"
    recipe = open_recipe(*overrides, *others)
    model = build_drawn(recipe, vocabulary, seed=2)
    start_model(recipe, model, vocabulary)
    assert pack_weights(model).keys() == pack_weights(start).keys()
    tokens = torch.tensor(vocabulary.encode_source(SOURCES[:1]))
    with torch.no_grad():
        layout = PaddedLayout.without_padding(tokens)
        logits = [
            network.project(network(tokens, layout, tokens, layout)) for network in (start, model)
        ]
    assert torch.equal(*logits)
    counts = (
        "200 of 200 pieces"
        if tied == "three-way"
        else "200 of 200 source pieces and 200 of 200 target pieces"
    )
    folder = recipe.training.start_from.model
    assert capsys.readouterr().err == f"starting from {folder}, which has {counts}\n"


def test_added_pieces_have_rows_of_their_own(make_start, open_recipe, capsys) -> None:
    vocabulary = train_vocabulary(joint=False)
    start, recipe = make_start(vocabulary, *TWO), open_recipe(*TWO)
    extended = extend_vocabulary(vocabulary, tags=["<de>", "<fr>"], symbols=["<ph>"])
    model, fresh = build_drawn(recipe, extended, seed=2), build_drawn(recipe, extended, seed=2)
    start_model(recipe, model, extended)
    for side, size in (("source", 203), ("target", 201)):
        weight, theirs, chance = (
            getattr(network, f"{side}_embedding").tokens.weight for network in (model, start, fresh)
        )
        assert weight.shape == (size, 16)
        assert torch.equal(weight[:200], theirs)
        assert torch.equal(weight[200:], chance[200:])
    pieces = "200 of 203 source pieces and 200 of 201 target pieces"
    assert f"{pieces}; the others start from random vectors" in capsys.readouterr().err
    assert model.output_embedding.weight is model.target_embedding.tokens.weight


def test_a_new_vocabulary_takes_rows_by_piece(make_start, open_recipe, capsys) -> None:
    old, new = train_vocabulary(200), train_vocabulary(150, kind="unigram")
    start, recipe = make_start(old), open_recipe("training.start_from.vocabulary=new")
    model, fresh = build_drawn(recipe, new, seed=2), build_drawn(recipe, new, seed=2)
    start_model(recipe, model, new)
    # By hand: the row of each piece that both have, by its place in either list.
    weight = model.source_embedding.tokens.weight
    ours, theirs = new.source_vocabulary.pieces, old.source_vocabulary.pieces
    common = set(ours) & set(theirs)
    assert 30 < len(common) < 150
    assert {"<pad>", "<unk>", "<s>", "</s>"} < common
    for piece in ours:
        row = weight[ours.index(piece)]
        if piece in common:
            assert torch.equal(row, start.source_embedding.tokens.weight[theirs.index(piece)])
        else:
            expected = fresh.source_embedding.tokens.weight[ours.index(piece)]
            assert torch.equal(row, expected)
    moved = [piece for piece in common if ours.index(piece) != theirs.index(piece)]
    assert moved
    assert (
        f"{len(common)} of 150 pieces; the others start from random vectors"
        in capsys.readouterr().err
    )
    # The layers come as they are.
    for name, theirs_weight in start.encoder.state_dict().items():
        assert torch.equal(model.encoder.state_dict()[name], theirs_weight)


def test_two_vocabularies_into_one_go_by_side(make_start, open_recipe, capsys) -> None:
    tied = "model.tied_embeddings=decoder"
    old, new = train_vocabulary(joint=False), train_vocabulary()
    start = make_start(old, "tokenizer.joint=false", tied)
    recipe = open_recipe(tied, "training.start_from.vocabulary=new")
    model = build_drawn(recipe, new, seed=2)
    start_model(recipe, model, new)
    said = capsys.readouterr().err
    for side in ("source", "target"):
        theirs = getattr(old, f"{side}_vocabulary").pieces
        common = [piece for piece in new.source_vocabulary.pieces if piece in theirs]
        weight, taken = (
            getattr(network, f"{side}_embedding").tokens.weight for network in (model, start)
        )
        for piece in common:
            row = weight[new.source_vocabulary.pieces.index(piece)]
            assert torch.equal(row, taken[theirs.index(piece)])
        assert f"{len(common)} of 200 {side} pieces" in said


def test_more_learned_positions_than_before(make_start, open_recipe) -> None:
    vocabulary = train_vocabulary()
    start = make_start(vocabulary, *SHORT, "model.max_positions=30")
    recipe = open_recipe(*SHORT, "model.max_positions=40")
    model, fresh = build_drawn(recipe, vocabulary, seed=2), build_drawn(recipe, vocabulary, seed=2)
    start_model(recipe, model, vocabulary)
    for side in ("source_embedding", "target_embedding"):
        weight, theirs, chance = (
            getattr(network, side).positions.weight for network in (model, start, fresh)
        )
        assert torch.equal(weight[:30], theirs)
        assert torch.equal(weight[30:], chance[30:])


SHAPES = {
    "several": (
        (),
        ("model.d_model=32", "model.norm=pre", "model.num_decoder_layers=2"),
        "model.num_decoder_layers = 2, but the model has 1; model.d_model = 32, but the model "
        "has 16; model.norm = pre, but the model has post",
        "--set model.num_decoder_layers=1 --set model.d_model=16 --set model.norm=post",
    ),
    "a width per head": (
        (),
        ("model.d_key=4",),
        "model.d_key = 4, but the model has 8",
        "--set model.d_key=8",
    ),
    "tying": (
        (),
        ("model.tied_embeddings=decoder",),
        "model.tied_embeddings = decoder, but the model has three-way",
        "--set model.tied_embeddings=three-way",
    ),
    "fewer positions": (
        (*SHORT, "model.max_positions=30"),
        (*SHORT, "model.max_positions=20"),
        "model.max_positions = 20, but the model has 30",
        "--set model.max_positions=30",
    ),
    "positions of another kind": (
        (),
        (*SHORT, "model.max_positions=20"),
        "model.positions = learned, but the model has sinusoidal",
        "--set model.positions=sinusoidal",
    ),
}


@pytest.mark.parametrize("case", SHAPES)
def test_another_shape_is_told_key_by_key(make_start, open_recipe, case: str) -> None:
    there, here, message, hint = SHAPES[case]
    vocabulary = train_vocabulary()
    make_start(vocabulary, *there)
    recipe = open_recipe(*here)
    with pytest.raises(MtkitError) as caught:
        start_model(recipe, build_drawn(recipe, vocabulary, seed=2), vocabulary)
    folder = recipe.training.start_from.model
    shape = f"{folder}: this model's shape differs from the recipe's: "
    assert (caught.value.message, caught.value.hint) == (shape + message, hint)
    # The hint's command fixes it.
    overrides = hint.removeprefix("--set ").split(" --set ")
    fixed = open_recipe(*here, *overrides)
    start_model(fixed, build_drawn(fixed, vocabulary, seed=2), vocabulary)


def test_no_model_and_another_vocabulary_are_told(make_start, open_recipe) -> None:
    recipe, vocabulary = open_recipe(), train_vocabulary()
    model = build_drawn(recipe, vocabulary, seed=2)
    with pytest.raises(MtkitError, match=r"start: no such folder \(training.start_from.model\)"):
        start_model(recipe, model, vocabulary)
    recipe.training.start_from.model.mkdir()
    with pytest.raises(MtkitError, match=r"start: no model here \(no config\.json\)"):
        start_model(recipe, model, vocabulary)
    make_start(train_vocabulary(kind="unigram"))
    with pytest.raises(MtkitError, match="vocabulary no longer matches the prepared") as caught:
        start_model(recipe, model, vocabulary)
    assert caught.value.hint == "run `mtkit prepare` again"


def test_other_languages_and_frozen_chance_are_told(make_start, open_recipe, capsys) -> None:
    vocabulary = train_vocabulary()
    make_start(vocabulary)
    extended = extend_vocabulary(vocabulary, tags=["<fr>"])
    recipe = open_recipe("data.target_language=fr", "training.freeze=['embeddings']")
    start_model(recipe, build_drawn(recipe, extended, seed=2), extended)
    _, transfer, warning = capsys.readouterr().err.splitlines()
    assert transfer == "that model translates en-de; this run trains it for en-fr"
    assert warning.startswith("warning: training.freeze includes the embeddings: pieces that")
