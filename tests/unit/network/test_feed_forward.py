import math

import pytest
import torch
from transformers.activations import ACT2FN

from mtkit.network.sublayers import FeedForward
from mtkit.recipe.model import Model


def _config(d_model: int, d_ff: int, activation: str, **keys: object) -> Model:
    keys = {"positions": "learned", "num_heads": 1, "activation": activation, **keys}
    return Model(d_model=d_model, d_ff=d_ff, **keys)


def _set(linear: torch.nn.Linear, weight: list[list[float]], bias: list[float]) -> None:
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(weight))
        linear.bias.copy_(torch.tensor(bias))


def test_relu_by_hand() -> None:
    feed_forward = FeedForward(_config(2, 3, "relu"))
    _set(feed_forward.inner, [[1, 0], [0, 1], [-1, 1]], [0, -5, 0])
    _set(feed_forward.output, [[1, 1, 1], [2, 0, 10]], [0.5, 0])
    # (3, 4): inner 3, 4 - 5, -3 + 4 = 3, -1, 1, so 3, 0, 1 (arXiv 1706.03762, equation 2).
    torch.testing.assert_close(
        feed_forward(torch.tensor([[[3.0, 4.0]]])), torch.tensor([[[4.5, 16.0]]])
    )


def test_gelu_by_hand() -> None:
    feed_forward = FeedForward(_config(1, 2, "gelu"))
    _set(feed_forward.inner, [[1], [-1]], [0, 0])
    _set(feed_forward.output, [[1, 100]], [0])
    # x Phi(x) (arXiv 1606.08415, section 2), with Phi(1) = 0.8413447461 from a table.
    expected = 0.8413447461 - 100 * (1 - 0.8413447461)
    output = feed_forward(torch.tensor([[[1.0]]])).item()
    assert output == pytest.approx(expected, rel=1e-6)


def test_swiglu_by_hand() -> None:
    feed_forward = FeedForward(_config(2, 2, "swiglu"))
    # The first half of the rows gates, the second half is gated.
    _set(feed_forward.inner, [[1, 0], [0, 0], [0, 1], [1, 1]], [0, 1, 0, 0])
    _set(feed_forward.output, [[1, 0], [0, 1]], [0, 0])
    # (Swish(x W) * x V) W2 (arXiv 2002.05202, equation 6), Swish(x) = x / (1 + e^-x): gates
    # Swish(ln 3) = ln 3 * 3/4 and Swish(1) = 0.7310585786; gated are 4 and ln 3 + 4.
    output = feed_forward(torch.tensor([[[math.log(3), 4.0]]]))
    expected = [math.log(3) * 3, 0.7310585786 * (math.log(3) + 4)]
    torch.testing.assert_close(output, torch.tensor([[expected]]))


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
def test_dropout_acts_on_the_inner_numbers(activation: str) -> None:
    torch.manual_seed(11)
    feed_forward = FeedForward(_config(2, 16, activation, activation_dropout=0.5))
    with torch.no_grad():
        feed_forward.output.weight.fill_(1.0)
        feed_forward.output.bias.fill_(0.0)
    inputs = torch.randn(1, 1, 2)
    assert not torch.equal(feed_forward(inputs), feed_forward(inputs))
    # Both outputs sum the same numbers kept, so dropout stands before the output's map.
    assert feed_forward(inputs).unique().numel() == 1
    feed_forward.eval()
    assert torch.equal(feed_forward(inputs), feed_forward(inputs))


@pytest.mark.parametrize(("activation", "theirs"), [("gelu_tanh", "gelu_new"), ("silu", "swish")])
def test_an_activation_is_transformers_s(activation: str, theirs: str) -> None:
    # GPT-2's and Marian's.
    feed_forward = FeedForward(_config(1, 1, activation))
    _set(feed_forward.inner, [[1]], [0])
    _set(feed_forward.output, [[1]], [0])
    inputs = torch.linspace(-9, 9, 200)[None, :, None]
    torch.testing.assert_close(feed_forward(inputs), ACT2FN[theirs](inputs))
