import pytest
import torch

from mtkit.network.decoder import Decoder
from mtkit.recipe.model import Model


def _decoder(**keys: object) -> Decoder:
    torch.manual_seed(14)
    sizes = {"num_decoder_layers": 2, "d_model": 16, "d_ff": 24, "num_heads": 2}
    return Decoder(Model(**{**sizes, **keys}))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_no_position_draws_on_a_later_one(norm: str) -> None:
    decoder = _decoder(norm=norm).eval()
    states = torch.randn(1, 5, 16, requires_grad=True)
    output = decoder(states, torch.randn(1, 3, 16), torch.ones(1, 3, dtype=torch.bool))
    for place in range(5):
        (gradient,) = torch.autograd.grad(output[0, place, 3], states, retain_graph=True)
        influence = gradient[0].abs().sum(dim=-1)
        assert influence[: place + 1].gt(0).all()
        assert influence[place + 1 :].eq(0).all()


def test_every_position_sees_the_source_s_tokens_alone() -> None:
    decoder = _decoder().eval()
    memory = torch.randn(1, 4, 16, requires_grad=True)
    source_is_token = torch.tensor([[True, True, True, False]])
    output = decoder(torch.randn(1, 3, 16), memory, source_is_token)
    for place in range(3):
        (gradient,) = torch.autograd.grad(output[0, place, 3], memory, retain_graph=True)
        influence = gradient[0].abs().sum(dim=-1)
        assert influence[:3].gt(0).all()
        assert influence[3].item() == 0


def test_start_takes_no_step() -> None:
    decoder = _decoder().eval()
    memory, is_token = torch.randn(2, 3, 16), torch.ones(2, 3, dtype=torch.bool)
    cache = decoder.start(memory, is_token)
    assert cache.num_steps == 0
    assert len(cache.layers) == 2
    assert cache.layers[0].source_keys.shape == (2, 2, 3, 8)
    decoder.step(torch.randn(2, 1, 16), cache)
    cache.select([0, 1], torch.zeros(2, 3, dtype=torch.long))
    decoder.step(torch.randn(2, 3, 16), cache)
    assert cache.num_steps == 2


@pytest.mark.parametrize("rate", ["dropout", "attention_dropout", "activation_dropout"])
def test_each_dropout_acts_in_training_alone(rate: str) -> None:
    rates = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    decoder = _decoder(**{**rates, rate: 0.4})
    inputs = torch.randn(1, 4, 16), torch.randn(1, 3, 16), torch.ones(1, 3, dtype=torch.bool)
    assert not torch.equal(decoder(*inputs), decoder(*inputs))
    decoder.eval()
    assert torch.equal(decoder(*inputs), decoder(*inputs))
