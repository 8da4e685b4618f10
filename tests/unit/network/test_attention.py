import functools
import math

import pytest
import torch
from torch import Tensor

from mtkit.network import PaddedLayout
from mtkit.network.attention import CrossAttention, SelfAttention
from mtkit.network.cpu.attention import attend_on_cpu
from mtkit.network.scaled_dot_product import AttentionOptions, attend
from mtkit.recipe.model import Model

assert_equal_in_fp64 = functools.partial(torch.testing.assert_close, rtol=0.0, atol=1e-12)


def _attend_by_hand(queries: Tensor, keys: Tensor, values: Tensor, sees: Tensor) -> Tensor:
    """softmax(Q K^T / sqrt(d_k)) V (arXiv 1706.03762, equation 1), one number at a time."""
    output = torch.zeros(*queries.shape[:-1], values.shape[-1], dtype=queries.dtype)
    for sentence in range(queries.shape[0]):
        for head in range(queries.shape[1]):
            for place, query in enumerate(queries[sentence, head]):
                weights = [
                    math.exp(float(query @ key) / math.sqrt(len(query)))
                    if sees[sentence, place, memory]
                    else 0.0
                    for memory, key in enumerate(keys[sentence, head])
                ]
                for weight, value in zip(weights, values[sentence, head], strict=True):
                    output[sentence, head, place] += weight / sum(weights) * value
    return output


def _random(*shape: int, requires_grad: bool = False) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=requires_grad)


# With a gradient and without one, PyTorch runs different kernels on a CPU.
with_and_without_gradient = pytest.mark.parametrize("requires_grad", [False, True])


@with_and_without_gradient
@pytest.mark.parametrize("d_value", [4, 3, 6])
def test_is_the_paper_s_formula(d_value: int, *, requires_grad: bool) -> None:
    torch.manual_seed(6)
    queries = _random(2, 3, 5, 4, requires_grad=requires_grad)
    keys, values = _random(2, 3, 7, 4), _random(2, 3, 7, d_value)
    expected = _attend_by_hand(
        queries.detach(), keys, values, torch.ones(2, 5, 7, dtype=torch.bool)
    )
    assert_equal_in_fp64(attend(queries, keys, values).detach(), expected)


@pytest.mark.parametrize("num_keys", [1, 7, 8, 15, 16, 17, 40])
@pytest.mark.parametrize("masks", [False, True])
def test_gradients_are_those_of_the_formula(num_keys: int, *, masks: bool) -> None:
    torch.manual_seed(9)
    inputs = [_random(2, 3, n, 4, requires_grad=True) for n in (5, num_keys, num_keys)]
    is_token = torch.arange(num_keys) < torch.tensor([num_keys, 1 + num_keys // 2])[:, None]
    scores = inputs[0] @ inputs[1].transpose(2, 3) / 2.0
    if masks:
        scores = scores.masked_fill(~is_token[:, None, None], -torch.inf)
    weights = scores.exp() / scores.exp().sum(dim=-1, keepdim=True)
    expected = weights @ inputs[2]
    found = attend(*inputs, memory_is_token=is_token if masks else None)
    assert_equal_in_fp64(found, expected)
    direction = torch.randn_like(expected)
    for ours, theirs in zip(
        torch.autograd.grad(found, inputs, direction),
        torch.autograd.grad(expected, inputs, direction),
        strict=True,
    ):
        assert_equal_in_fp64(ours, theirs)


@pytest.mark.parametrize("num_keys", [3, 20])
def test_gradients_go_through_the_weights_kept(num_keys: int) -> None:
    torch.manual_seed(9)
    inputs = [_random(2, 3, n, 4, requires_grad=True) for n in (5, num_keys, num_keys)]
    weights = (inputs[0] @ inputs[1].transpose(2, 3) / 2.0).softmax(dim=-1)
    # Values of 1 at their own key show the weights after dropout.
    ones = torch.eye(num_keys, dtype=torch.float64).expand(2, 3, -1, -1)
    torch.manual_seed(1)
    scale = (attend_on_cpu(*inputs[:2], ones, is_visible=None, dropout=0.5) / weights).detach()
    assert (scale == 0.0).double().mean().item() == pytest.approx(0.5, abs=0.2)
    expected = (weights * scale) @ inputs[2]
    torch.manual_seed(1)
    found = attend_on_cpu(*inputs, is_visible=None, dropout=0.5)
    assert_equal_in_fp64(found, expected)
    direction = torch.randn_like(expected)
    for ours, theirs in zip(
        torch.autograd.grad(found, inputs, direction),
        torch.autograd.grad(expected, inputs, direction),
        strict=True,
    ):
        assert_equal_in_fp64(ours, theirs)


@pytest.mark.parametrize("num_keys", [3, 20])
def test_a_query_that_may_see_nothing_sees_all_alike(num_keys: int) -> None:
    queries = torch.randn(1, 1, 2, 4, requires_grad=True)
    keys, values = torch.randn(1, 1, num_keys, 4), torch.randn(1, 1, num_keys, 4)
    found = attend(
        queries, keys, values, memory_is_token=torch.zeros(1, num_keys, dtype=torch.bool)
    )
    torch.testing.assert_close(found.detach(), values.mean(dim=2, keepdim=True).expand(1, 1, 2, 4))


@with_and_without_gradient
@pytest.mark.parametrize("d_value", [4, 3])
def test_masked_keys_weigh_nothing(d_value: int, *, requires_grad: bool) -> None:
    torch.manual_seed(7)
    queries = _random(2, 3, 5, 4, requires_grad=requires_grad)
    keys, values = _random(2, 3, 7, 4), _random(2, 3, 7, d_value)
    is_token = torch.arange(7) < torch.tensor([7, 2])[:, None]
    expected = _attend_by_hand(queries.detach(), keys, values, is_token[:, None, :].expand(2, 5, 7))
    output = attend(queries, keys, values, memory_is_token=is_token).detach()
    assert_equal_in_fp64(output, expected)


@with_and_without_gradient
@pytest.mark.parametrize("d_value", [4, 3])
def test_causal_queries_see_no_later_key(d_value: int, *, requires_grad: bool) -> None:
    torch.manual_seed(8)
    queries = _random(2, 3, 5, 4, requires_grad=requires_grad)
    keys, values = _random(2, 3, 5, 4), _random(2, 3, 5, d_value)
    sees = torch.ones(5, 5, dtype=torch.bool).tril().expand(2, 5, 5)
    expected = _attend_by_hand(queries.detach(), keys, values, sees)
    output = attend(queries, keys, values, AttentionOptions(is_causal=True)).detach()
    assert_equal_in_fp64(output, expected)


def test_a_mask_beside_causality_is_our_own_bug() -> None:
    states = _random(1, 1, 2, 4)
    is_token = torch.ones(1, 2, dtype=torch.bool)
    with pytest.raises(AssertionError):
        attend(states, states, states, AttentionOptions(is_causal=True), memory_is_token=is_token)


def test_dropped_weights_leave_their_expectation() -> None:
    torch.manual_seed(9)
    queries = torch.zeros(1, 1, 4000, 2)
    # Every weight is 1/4 and every value 1: a query's output is k/4 / (1 - 0.5), k of 4 kept.
    keys, values = torch.zeros(1, 1, 4, 2), torch.ones(1, 1, 4, 1)
    output = attend(queries, keys, values, AttentionOptions(dropout=0.5))
    torch.testing.assert_close(output.unique(), torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0]))
    # Five standard deviations of 0.5 / sqrt(4000).
    assert output.mean().item() == pytest.approx(1.0, abs=0.04)


def _set_linear(linear: torch.nn.Linear, weight: list[list[float]], bias: list[float]) -> None:
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(weight))
        linear.bias.copy_(torch.tensor(bias))


def test_self_attention_by_hand() -> None:
    attention = SelfAttention(Model(d_model=2, num_heads=2, d_key=1, d_value=1))
    # Rows: two heads of queries, of keys, of values. Head 0 asks for ln 2 times the first number
    # and head 1 for nothing; head 0 returns the first number, head 1 the second plus 1.
    _set_linear(
        attention.query_key_value,
        [[0, 0], [0, 0], [1, 0], [0, 1], [1, 0], [0, 1]],
        [math.log(2), 0, 0, 0, 0, 1],
    )
    _set_linear(attention.output, [[1, 0], [0, 10]], [0, 0.5])
    # Head 0's keys are 0 and 1: weights 1/3 and 2/3, so 2/3. Head 1 takes the mean of 4 + 1 and
    # 8 + 1, so 7, and 10 * 7 + 0.5.
    output = attention(
        torch.tensor([[[0.0, 4.0], [1.0, 8.0]]]), PaddedLayout(torch.ones(1, 2, dtype=torch.bool))
    )
    torch.testing.assert_close(output, torch.tensor([[[2 / 3, 70.5], [2 / 3, 70.5]]]))


def test_cross_attention_by_hand() -> None:
    attention = CrossAttention(Model(d_model=2, num_heads=1, d_key=1, d_value=2))
    _set_linear(attention.query, [[1, 0]], [0])
    # A key is the source's first number; a value is its two numbers, swapped.
    _set_linear(attention.key_value, [[1, 0], [0, 1], [1, 0]], [0, 0, 0])
    _set_linear(attention.output, [[1, 0], [0, 1]], [0, 0])
    memory = torch.tensor([[[0.0, 4.0], [1.0, 8.0], [9.0, 9.0]]])
    layout = PaddedLayout(torch.tensor([[True, True, False]]))
    (keys,), (values,) = attention.project_memory(memory, layout)
    assert keys.tolist() == [[[[0.0], [1.0], [9.0]]]]
    assert values.tolist() == [[[[4.0, 0.0], [8.0, 1.0], [9.0, 9.0]]]]
    # The query ln 3 weighs keys 0 and 1 with 1/4 and 3/4: 4/4 + 24/4 and 3/4. The third is padding.
    output = attention(
        torch.tensor([[[math.log(3), 5.0]]]), PaddedLayout(torch.tensor([[True]])), memory, layout
    )
    torch.testing.assert_close(output, torch.tensor([[[7.0, 0.75]]]))


def test_attention_dropout_acts_in_training_alone() -> None:
    torch.manual_seed(10)
    config = Model(d_model=4, num_heads=2, attention_dropout=0.5)
    self_attention, cross_attention = SelfAttention(config), CrossAttention(config)
    states = torch.randn(1, 6, 4)
    layout = PaddedLayout(torch.ones(1, 6, dtype=torch.bool))
    for run in (
        lambda: self_attention(states, layout),
        lambda: cross_attention(states, layout, states, layout),
    ):
        self_attention.train()
        cross_attention.train()
        assert not torch.equal(run(), run())
        self_attention.eval()
        cross_attention.eval()
        assert torch.equal(run(), run())
