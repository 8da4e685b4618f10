"""The map of a network's weights, held against the network that torch builds."""

import subprocess
import sys

import pytest

from mtkit.errors import MtkitError
from mtkit.model.parameters import find_part, find_rows, list_shapes
from mtkit.model.weights import distinct_weights
from mtkit.network import (
    CausalClassifier,
    CausalLanguageModel,
    EncoderDecoder,
    MaskedClassifier,
    MaskedLanguageModel,
)
from mtkit.recipe.model import Model

SIZES = {"num_encoder_layers": 2, "num_decoder_layers": 3, "d_model": 16, "d_ff": 24}


of_every_kind = pytest.mark.parametrize(
    "kind",
    [
        {},
        {"norm": "pre", "activation": "swiglu", "tied_embeddings": "decoder"},
        {"d_key": 4, "d_value": 5, "tied_embeddings": "none", "attention_window": 2},
        {"embedding_norm": True, "output_bias": True, "activation": "silu"},
    ],
)
with_all_positions = pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])


@with_all_positions
@of_every_kind
def test_shapes_are_those_of_the_network_itself(kind: dict, positions: str) -> None:
    model = Model(**SIZES, num_heads=2, positions=positions, max_positions=9, **kind)
    network = EncoderDecoder(model, 41, 41)
    built = {name: tuple(weight.shape) for name, weight in distinct_weights(network).items()}
    assert list_shapes(model, 41, 41) == built


@with_all_positions
@of_every_kind
@pytest.mark.parametrize("next_sentence", [False, True])
def test_shapes_are_those_of_language_models(
    kind: dict, positions: str, *, next_sentence: bool
) -> None:
    model = Model(**SIZES, num_heads=2, positions=positions, max_positions=9, **kind)
    networks = {
        "causal-lm": CausalLanguageModel(model, 41),
        "masked-lm": MaskedLanguageModel(model, 41, next_sentence=next_sentence),
        "denoising": EncoderDecoder(model, 41, 41),
    }
    for objective, network in networks.items():
        built = {name: tuple(weight.shape) for name, weight in distinct_weights(network).items()}
        options = {"objective": objective, "next_sentence": next_sentence}
        assert list_shapes(model, 41, 41, **options) == built


def test_torch_is_not_loaded() -> None:
    program = (
        "import sys\n"
        "from mtkit.model.parameters import list_shapes\n"
        "from mtkit.recipe.model import Model\n"
        "list_shapes(Model(positions='learned'), 41, 41)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


@pytest.mark.parametrize("tied", ["three-way", "decoder", "none"])
def test_parts_are_the_modules_of_the_network(tied: str) -> None:
    model = Model(**SIZES, num_heads=2, norm="pre", positions="learned", tied_embeddings=tied)
    network = EncoderDecoder(model, 41, 41)
    modules = {
        "encoder": [network.encoder],
        "decoder": [network.decoder],
        "embeddings": [network.source_embedding, network.target_embedding],
    }
    for name, weight in network.named_parameters():
        owners = {
            part
            for part, owned in modules.items()
            if any(weight is one for module in owned for one in module.parameters())
        }
        assert owners == ({find_part(name)} - {"output"}), name
    with pytest.raises(ValueError, match="adapter"):
        find_part("adapter.weight")


@pytest.mark.parametrize("tied", ["three-way", "none"])
def test_parts_of_language_models_are_named_as_a_translators(tied: str) -> None:
    model = Model(**SIZES, num_heads=2, norm="pre", positions="learned", tied_embeddings=tied)
    causal = CausalLanguageModel(model, 41)
    masked = MaskedLanguageModel(model, 41, next_sentence=True)
    for network, embedding, stack in (
        (causal, "target_embedding", "decoder"),
        (masked, "source_embedding", "encoder"),
    ):
        parts = {"embeddings": getattr(network, embedding), stack: getattr(network, stack)}
        for name, weight in network.named_parameters():
            owners = {
                part
                for part, module in parts.items()
                if any(weight is one for one in module.parameters())
            }
            assert owners == ({find_part(name)} - {"output"}), name


def test_rows_follow_the_vocabularies_and_the_positions() -> None:
    model = Model(
        **SIZES, num_heads=2, positions="learned", tied_embeddings="none", output_bias=True
    )
    plain = list_shapes(model, 41, 43)
    changed = {
        "source pieces": list_shapes(model, 42, 43),
        "target pieces": list_shapes(model, 41, 44),
        "positions": list_shapes(model.model_copy(update={"max_positions": 1025}), 41, 43),
    }
    for rows, shapes in changed.items():
        moved = {name for name in plain if shapes[name] != plain[name]}
        assert moved == {name for name in plain if find_rows(name) == rows}


@pytest.mark.parametrize("objective", ["causal-lm", "masked-lm", "denoising"])
def test_rows_of_language_models_follow_their_one_vocabulary(objective: str) -> None:
    model = Model(**SIZES, num_heads=2, positions="learned", tied_embeddings="none")
    plain = list_shapes(model, 41, 41, objective=objective)
    more_pieces = list_shapes(model, 44, 44, objective=objective)
    longer = model.model_copy(update={"max_positions": 1025})
    more_positions = list_shapes(longer, 41, 41, objective=objective)
    of_pieces = {name for name in plain if more_pieces[name] != plain[name]}
    of_positions = {name for name in plain if more_positions[name] != plain[name]}
    assert of_pieces == {
        name for name in plain if find_rows(name) in ("source pieces", "target pieces")
    }
    assert of_positions == {name for name in plain if find_rows(name) == "positions"}
    assert of_positions


def test_one_embedding_serves_one_vocabulary() -> None:
    with pytest.raises(MtkitError, match="41 source and 42 target pieces"):
        list_shapes(Model(), 41, 42)


@with_all_positions
@of_every_kind
def test_shapes_are_those_of_classifiers(kind: dict, positions: str) -> None:
    model = Model(**SIZES, num_heads=2, positions=positions, max_positions=9, **kind)
    networks = {
        "causal-lm": CausalClassifier(model, 41, 5),
        "masked-lm": MaskedClassifier(model, 41, 5),
    }
    for start, network in networks.items():
        built = {name: tuple(weight.shape) for name, weight in distinct_weights(network).items()}
        options = {"objective": "classification", "classifier": (start, 5)}
        assert list_shapes(model, 41, 41, **options) == built
        assert {find_part(name) for name in built} <= {"embeddings", "encoder", "decoder", "output"}
