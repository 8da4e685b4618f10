"""The map of a network's weights, held against the network that torch builds."""

import subprocess
import sys

import pytest

from mtkit.errors import MtkitError
from mtkit.model.parameters import find_part, find_rows, list_shapes
from mtkit.model.weights import distinct_weights
from mtkit.network import EncoderDecoder
from mtkit.recipe.model import Model

SIZES = {"num_encoder_layers": 2, "num_decoder_layers": 3, "d_model": 16, "d_ff": 24}


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"norm": "pre", "activation": "swiglu", "tied_embeddings": "decoder"},
        {"d_key": 3, "d_value": 5, "tied_embeddings": "none", "attention_window": 2},
        {"embedding_norm": True, "output_bias": True, "activation": "silu"},
    ],
)
def test_shapes_are_those_of_the_network_itself(kind: dict, positions: str) -> None:
    model = Model(**SIZES, num_heads=2, positions=positions, max_positions=9, **kind)
    network = EncoderDecoder(model, 41, 41)
    built = {name: tuple(weight.shape) for name, weight in distinct_weights(network).items()}
    assert list_shapes(model, 41, 41) == built


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
    with pytest.raises(ValueError, match="pooler"):
        find_part("pooler.weight")


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


def test_one_embedding_serves_one_vocabulary() -> None:
    with pytest.raises(MtkitError, match="41 source and 42 target pieces"):
        list_shapes(Model(), 41, 42)
