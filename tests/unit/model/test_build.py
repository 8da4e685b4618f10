import torch

from mtkit.model.build import build
from mtkit.model.config import ModelConfig
from mtkit.model.weights import load_weights, pack_weights
from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.recipe.model import Model

MODEL = Model(num_encoder_layers=1, num_decoder_layers=1, d_model=16, d_ff=24, num_heads=2)
CONFIG = ModelConfig(
    recipe="tiny",
    source_language="en",
    target_language="de",
    source_vocab_size=41,
    target_vocab_size=41,
    model=MODEL,
)


def test_weights_are_drawn_from_torchs_generator() -> None:
    torch.manual_seed(3)
    expected = pack_weights(EncoderDecoder(MODEL, 41, 41))
    torch.manual_seed(3)
    found = pack_weights(build(CONFIG))
    assert all(torch.equal(found[name], weight) for name, weight in expected.items())


def test_weights_that_are_not_drawn_leave_the_generator_as_it_was() -> None:
    before = torch.get_rng_state()
    empty = build(CONFIG, has_initial_weights=False)
    assert torch.equal(torch.get_rng_state(), before)
    drawn = build(CONFIG)
    load_weights(empty, pack_weights(drawn))
    tokens = torch.tensor([[5, 6, 3]])
    layout = PaddedLayout.without_padding(tokens)
    with torch.no_grad():
        outputs = [model.eval()(tokens, layout, tokens, layout) for model in (drawn, empty)]
    assert torch.equal(*outputs)
