import pytest
import torch

from mtkit.errors import MtkitError
from mtkit.model.build import build
from mtkit.model.config import ModelConfig, check_translates
from mtkit.model.weights import load_weights, pack_weights
from mtkit.network import (
    CausalLanguageModel,
    EncoderDecoder,
    MaskedLanguageModel,
    PaddedLayout,
)
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


def test_the_objective_says_which_network() -> None:
    causal = CONFIG.model_copy(update={"objective": "causal-lm"})
    assert isinstance(build(causal), CausalLanguageModel)
    masked = CONFIG.model_copy(update={"objective": "masked-lm"})
    network = build(masked)
    assert isinstance(network, MaskedLanguageModel)
    assert network.next_sentence is not None
    network = build(masked.model_copy(update={"next_sentence": False}))
    assert isinstance(network, MaskedLanguageModel)
    assert network.next_sentence is network.pooler is None


def test_a_config_is_read_as_it_was_written() -> None:
    for config in (CONFIG, CONFIG.model_copy(update={"objective": "masked-lm"})):
        assert ModelConfig.model_validate_json(config.model_dump_json()) == config


def test_a_language_model_has_one_vocabulary() -> None:
    keys = CONFIG.model_dump() | {"objective": "masked-lm", "target_vocab_size": 40}
    with pytest.raises(ValueError, match="one vocabulary, but source_vocab_size = 41"):
        ModelConfig.model_validate(keys)


def test_no_command_takes_a_language_model_for_a_translator() -> None:
    check_translates(CONFIG, "translation")
    causal = CONFIG.model_copy(update={"objective": "causal-lm"})
    with pytest.raises(MtkitError, match=r'"causal-lm".*translation is only for translators'):
        check_translates(causal, "translation")
