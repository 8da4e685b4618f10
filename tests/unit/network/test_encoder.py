import pytest
import torch

from mtkit.network.encoder import Encoder
from mtkit.recipe.model import Model


def _encoder(**keys: object) -> Encoder:
    torch.manual_seed(13)
    sizes = {"num_encoder_layers": 2, "d_model": 16, "d_ff": 24, "num_heads": 2}
    return Encoder(Model(**{**sizes, **keys}))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_stack_ends_in_a_norm(norm: str) -> None:
    states = 50 * torch.randn(2, 5, 16) + 7
    encoded = _encoder(norm=norm)(states, torch.ones(2, 5, dtype=torch.bool))
    torch.testing.assert_close(encoded.mean(dim=-1), torch.zeros(2, 5), rtol=0, atol=1e-5)
    torch.testing.assert_close(
        encoded.var(dim=-1, correction=0), torch.ones(2, 5), rtol=0, atol=1e-3
    )


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_order_matters_through_positions_alone(norm: str) -> None:
    encoder = _encoder(norm=norm).double().eval()
    states = torch.randn(1, 6, 16, dtype=torch.float64)
    is_token = torch.ones(1, 6, dtype=torch.bool)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    with torch.no_grad():
        shuffled = encoder(states[:, order], is_token)
        torch.testing.assert_close(shuffled, encoder(states, is_token)[:, order])


def test_every_position_sees_earlier_and_later_ones() -> None:
    states = torch.randn(1, 4, 16, requires_grad=True)
    encoder = _encoder(num_encoder_layers=1).eval()
    encoded = encoder(states, torch.ones(1, 4, dtype=torch.bool))
    for place in range(4):
        (gradient,) = torch.autograd.grad(encoded[0, place, 3], states, retain_graph=True)
        assert gradient.abs().sum(dim=-1).gt(0).all()


@pytest.mark.parametrize("rate", ["dropout", "attention_dropout", "activation_dropout"])
def test_each_dropout_acts_in_training_alone(rate: str) -> None:
    rates = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    encoder = _encoder(**{**rates, rate: 0.4})
    states, is_token = torch.randn(1, 4, 16), torch.ones(1, 4, dtype=torch.bool)
    assert not torch.equal(encoder(states, is_token), encoder(states, is_token))
    encoder.eval()
    assert torch.equal(encoder(states, is_token), encoder(states, is_token))
