import subprocess
import sys

import pytest

from mtkit.model.weights_file import distinct_weights, list_shapes
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
    ],
)
def test_shapes_are_those_of_the_network_itself(kind: dict, positions: str) -> None:
    model = Model(**SIZES, num_heads=2, positions=positions, max_positions=9, **kind)
    network = EncoderDecoder(model, 41, 41)
    built = {name: tuple(weight.shape) for name, weight in distinct_weights(network).items()}
    assert list_shapes(model, 41, 41) == built


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_shapes_load_no_algebra(positions: str) -> None:
    # On the meta device PyTorch draws and counts by Python, and loads sympy: a second more.
    program = (
        "import sys\n"
        "from mtkit.model.weights_file import list_shapes\n"
        "from mtkit.recipe.model import Model\n"
        f"list_shapes(Model(positions={positions!r}), 41, 41)\n"
        "print('sympy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
