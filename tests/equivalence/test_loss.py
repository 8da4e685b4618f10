"""Our fused projection and loss against the smoothed distribution written out by hand."""

import math

import pytest
import torch

from mtkit.training import cross_entropy
from mtkit.training.loss import projected_cross_entropy


def by_hand(states, weight, targets, label_smoothing):
    """Cross entropy against (1 - e) on the target plus e / V on every token; and plain NLL."""
    vocab_size = weight.shape[0]
    log_probabilities = torch.log_softmax(states @ weight.T, dim=-1)
    reference = torch.full_like(log_probabilities, label_smoothing / vocab_size)
    reference[torch.arange(len(targets)), targets] += 1.0 - label_smoothing
    nll = -log_probabilities[torch.arange(len(targets)), targets].sum()
    return -(reference * log_probabilities).sum(), nll


def draw(dtype=torch.float32, num_tokens=37, d_model=16, vocab_size=29):
    generator = torch.Generator().manual_seed(5)
    states = torch.randn(num_tokens, d_model, generator=generator).to(dtype)
    weight = torch.randn(vocab_size, d_model, generator=generator).to(dtype)
    targets = torch.randint(vocab_size, (num_tokens,), generator=generator)
    return states.requires_grad_(), weight.requires_grad_(), targets


def test_three_tokens_on_paper() -> None:
    # Logits 0, ln 2, ln 5 give probabilities 1/8, 2/8, 5/8. With e = 0.3 and the target third, the
    # reference distribution is 0.1, 0.1, 0.8.
    weight = torch.tensor([[0.0], [math.log(2.0)], [math.log(5.0)]])
    sums = projected_cross_entropy(torch.ones(1, 1), weight, torch.tensor([2]), label_smoothing=0.3)
    expected = 0.1 * math.log(8) + 0.1 * math.log(4) + 0.8 * math.log(8 / 5)
    assert sums.loss.item() == pytest.approx(expected, rel=1e-6)
    assert sums.negative_log_likelihood.item() == pytest.approx(math.log(8 / 5), rel=1e-6)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize(("dtype", "closeness"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize("chunk_tokens", [1, 5, 1000])
def test_loss_and_gradients(label_smoothing, dtype, closeness, chunk_tokens, monkeypatch) -> None:
    states, weight, targets = draw(dtype)
    monkeypatch.setitem(cross_entropy._CHUNK_BYTES, "cpu", chunk_tokens * weight.shape[0] * 4)
    ours = projected_cross_entropy(states, weight, targets, label_smoothing=label_smoothing)
    our_gradients = torch.autograd.grad(ours.loss / 7.0, (states, weight))
    theirs, nll = by_hand(states, weight, targets, label_smoothing)
    their_gradients = torch.autograd.grad(theirs / 7.0, (states, weight))
    assert torch.allclose(ours.loss, theirs, rtol=closeness, atol=0.0)
    assert torch.allclose(ours.negative_log_likelihood, nll, rtol=closeness, atol=0.0)
    for our, their in zip(our_gradients, their_gradients, strict=True):
        assert (our - their).abs().max() <= closeness * their.abs().max() * 4


@pytest.mark.parametrize("frozen", ["states", "weight"])
def test_what_is_frozen_gets_no_gradient_and_the_rest_the_same(frozen, monkeypatch) -> None:
    states, weight, targets = draw()
    monkeypatch.setitem(cross_entropy._CHUNK_BYTES, "cpu", 5 * weight.shape[0] * 4)
    theirs, _ = by_hand(states, weight, targets, 0.1)
    tensors = {"states": states, "weight": weight}
    learning = next(tensor for name, tensor in tensors.items() if name != frozen)
    [their_gradient] = torch.autograd.grad(theirs, learning)
    tensors[frozen].requires_grad_(False)
    # Nothing as large as the frozen tensor's gradient is made room for.
    made: list[torch.Size] = []
    for name in ("empty_like", "zeros_like"):
        make = getattr(torch, name)
        monkeypatch.setattr(
            torch,
            name,
            lambda like, make=make, **kind: (made.append(like.shape), make(like, **kind))[1],
        )
    ours = projected_cross_entropy(states, weight, targets, label_smoothing=0.1)
    monkeypatch.undo()
    assert learning.shape in made
    assert tensors[frozen].shape not in made
    ours.loss.backward()
    assert tensors[frozen].grad is None
    assert torch.allclose(ours.loss, theirs, rtol=1e-6, atol=0.0)
    assert (learning.grad - their_gradient).abs().max() <= 4e-6 * their_gradient.abs().max()


def test_torch_spreads_the_mass_the_same_way() -> None:
    states, weight, targets = draw()
    ours = projected_cross_entropy(states, weight, targets, label_smoothing=0.1)
    theirs = torch.nn.functional.cross_entropy(
        states @ weight.T, targets, label_smoothing=0.1, reduction="sum"
    )
    assert torch.allclose(ours.loss, theirs, rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_in_16_bits_are_near_and_their_sums_are_in_fp32(dtype: torch.dtype) -> None:
    states, weight, targets = draw(num_tokens=300)
    halves = [tensor.detach().to(dtype).requires_grad_() for tensor in (states, weight)]
    ours = projected_cross_entropy(*halves, targets, label_smoothing=0.1)
    our_gradients = torch.autograd.grad(ours.loss, halves)
    theirs, _ = by_hand(states, weight, targets, 0.1)
    their_gradients = torch.autograd.grad(theirs, (states, weight))
    assert ours.loss.dtype == torch.float32
    # bfloat16 keeps 8 bits: 2^-8 of a logit, here up to 10 in size, averaged over 300 tokens.
    assert torch.allclose(ours.loss, theirs, rtol=2e-3, atol=0.0)
    for our, their in zip(our_gradients, their_gradients, strict=True):
        assert (our - their).norm() <= 0.02 * their.norm()


def test_extreme_logits_stay_finite() -> None:
    states = torch.tensor([[1e4], [-1e4]], requires_grad=True)
    weight = torch.tensor([[1.0], [0.0], [-1.0]], requires_grad=True)
    sums = projected_cross_entropy(states, weight, torch.tensor([0, 2]), label_smoothing=0.0)
    assert sums.loss.item() == 0.0
    assert all(g.isfinite().all() for g in torch.autograd.grad(sums.loss, (states, weight)))


def test_an_impossible_target_costs_what_it_should() -> None:
    # exp(-2000) is no number above 0: by hand, 1000 - (-1000), and 2 for the one that is likelier.
    states = torch.tensor([[1000.0], [1000.0], [1.0]], requires_grad=True)
    weight = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    sums = projected_cross_entropy(states, weight, torch.tensor([1, 0, 1]), label_smoothing=0.0)
    expected = 2000.0 + 0.0 + 2.0 + math.log1p(math.exp(-2.0))
    assert sums.loss.item() == pytest.approx(expected, rel=1e-6)
    assert sums.negative_log_likelihood.item() == pytest.approx(expected, rel=1e-6)


def test_in_fp16_an_improbable_target_keeps_its_digits() -> None:
    # e^-15 is five times fp16's smallest number: its logarithm there is off by 0.02.
    states, weight = torch.ones(1, 1).half(), torch.tensor([[0.0], [15.0]]).half()
    sums = projected_cross_entropy(states, weight, torch.tensor([0]), label_smoothing=0.0)
    assert sums.loss.item() == pytest.approx(15.0, abs=1e-4)


def test_without_gradients_nothing_is_kept_for_the_way_back() -> None:
    states, weight, targets = draw()
    with torch.no_grad():
        sums = projected_cross_entropy(states, weight, targets, label_smoothing=0.1)
    assert not sums.loss.requires_grad
