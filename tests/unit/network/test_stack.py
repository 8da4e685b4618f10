from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from mtkit.network import PaddedLayout, stack
from mtkit.network.attention import WatchedHead
from mtkit.network.stack import TransformerStack
from mtkit.recipe.model import Model


def _build(*, cross_attention: bool, is_causal: bool, **keys: object) -> TransformerStack:
    torch.manual_seed(13)
    sizes = {"d_model": 16, "d_ff": 24, "num_heads": 2}
    return TransformerStack(
        Model(**{**sizes, **keys}), 2, cross_attention=cross_attention, is_causal=is_causal
    )


def _encoder(**keys: object) -> TransformerStack:
    return _build(cross_attention=False, is_causal=False, **keys)


def _decoder(**keys: object) -> TransformerStack:
    return _build(cross_attention=True, is_causal=True, **keys)


def _full(batch_size: int, length: int) -> PaddedLayout:
    return PaddedLayout(torch.ones(batch_size, length, dtype=torch.bool))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_stack_ends_in_a_norm(norm: str) -> None:
    states = 50 * torch.randn(2, 5, 16) + 7
    encoded = _encoder(norm=norm)(states, _full(2, 5))
    torch.testing.assert_close(encoded.mean(dim=-1), torch.zeros(2, 5), rtol=0, atol=1e-5)
    torch.testing.assert_close(
        encoded.var(dim=-1, correction=0), torch.ones(2, 5), rtol=0, atol=1e-3
    )


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_order_matters_through_positions_alone(norm: str) -> None:
    encoder = _encoder(norm=norm).double().eval()
    states = torch.randn(1, 6, 16, dtype=torch.float64)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    with torch.no_grad():
        shuffled = encoder(states[:, order], _full(1, 6))
        torch.testing.assert_close(shuffled, encoder(states, _full(1, 6))[:, order])


def test_every_position_sees_earlier_and_later_ones() -> None:
    states = torch.randn(1, 4, 16, requires_grad=True)
    encoder = _encoder().eval()
    encoded = encoder(states, _full(1, 4))
    for place in range(4):
        (gradient,) = torch.autograd.grad(encoded[0, place, 3], states, retain_graph=True)
        assert gradient.abs().sum(dim=-1).gt(0).all()


@pytest.mark.parametrize("rate", ["dropout", "attention_dropout", "activation_dropout"])
def test_each_dropout_of_an_encoder_acts_in_training_alone(rate: str) -> None:
    rates = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    encoder = _encoder(**{**rates, rate: 0.4})
    states, layout = torch.randn(1, 4, 16), _full(1, 4)
    assert not torch.equal(encoder(states, layout), encoder(states, layout))
    encoder.eval()
    assert torch.equal(encoder(states, layout), encoder(states, layout))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_no_position_draws_on_a_later_one(norm: str) -> None:
    decoder = _decoder(norm=norm).eval()
    states = torch.randn(1, 5, 16, requires_grad=True)
    output = decoder(states, _full(1, 5), torch.randn(1, 3, 16), _full(1, 3))
    for place in range(5):
        (gradient,) = torch.autograd.grad(output[0, place, 3], states, retain_graph=True)
        influence = gradient[0].abs().sum(dim=-1)
        assert influence[: place + 1].gt(0).all()
        assert influence[place + 1 :].eq(0).all()


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("head", [None, (1, 2), (2, 1)])
def test_recomputed_layers_keep_their_inputs_and_give_the_same_bits(norm: str, head) -> None:
    found, kept = [], []
    for recomputes in (False, True):
        decoder = _decoder(norm=norm, dropout=0.3, attention_dropout=0.3).train()
        decoder.recomputes = recomputes
        states, source = torch.randn(2, 5, 16), torch.randn(2, 3, 16)
        watched = None if head is None else WatchedHead(*head)
        held: list[torch.Tensor] = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t, h=held: h.append(t) or t, lambda t: t
        ):
            output = decoder(states, _full(2, 5), source, _full(2, 3), watched)
            loss = output.square().sum()
            if watched is not None:
                loss = loss - watched.find_log_weights(_full(2, 5), _full(2, 3)).sum()
        loss.backward()
        found.append([output, *(weight.grad for weight in decoder.parameters())])
        kept.append(sum(tensor.numel() for tensor in held))
    assert all(map(torch.equal, *found))
    # Hooks see what is kept beside the layers: the output, its norm and a watched head.
    assert kept[1] < kept[0] / 8


def test_recomputed_layers_attend_by_the_same_kernels(monkeypatch) -> None:
    inside = []

    @contextmanager
    def limit(_: torch.device) -> Iterator[None]:
        inside.append(True)
        yield
        inside.pop()

    found = []
    monkeypatch.setattr(stack, "limit_attention_kernels", limit)
    encoder = _encoder(dropout=0.3).train()
    encoder.recomputes = True
    for layer in encoder.layers:
        layer.register_forward_pre_hook(lambda *_: found.append(bool(inside)))
    encoder(torch.randn(1, 4, 16), _full(1, 4)).sum().backward()
    assert found == [True] * 4


def test_every_position_sees_the_source_s_tokens_alone() -> None:
    decoder = _decoder().eval()
    memory = torch.randn(1, 4, 16, requires_grad=True)
    memory_layout = PaddedLayout(torch.tensor([[True, True, True, False]]))
    output = decoder(torch.randn(1, 3, 16), _full(1, 3), memory, memory_layout)
    for place in range(3):
        (gradient,) = torch.autograd.grad(output[0, place, 3], memory, retain_graph=True)
        influence = gradient[0].abs().sum(dim=-1)
        assert influence[:3].gt(0).all()
        assert influence[3].item() == 0


def test_start_takes_no_step() -> None:
    decoder = _decoder().eval()
    cache = decoder.start(torch.randn(2, 3, 16), _full(2, 3))
    assert cache.num_steps == 0
    assert len(cache.layers) == 2
    assert cache.layers[0].source_keys.shape == (2, 2, 3, 8)
    decoder.step(torch.randn(2, 1, 16), cache)
    cache.select([0, 1], torch.zeros(2, 3, dtype=torch.long))
    decoder.step(torch.randn(2, 3, 16), cache)
    assert cache.num_steps == 2


@pytest.mark.parametrize("rate", ["dropout", "attention_dropout", "activation_dropout"])
def test_each_dropout_of_a_decoder_acts_in_training_alone(rate: str) -> None:
    rates = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    decoder = _decoder(**{**rates, rate: 0.4})
    inputs = torch.randn(1, 4, 16), _full(1, 4), torch.randn(1, 3, 16), _full(1, 3)
    assert not torch.equal(decoder(*inputs), decoder(*inputs))
    decoder.eval()
    assert torch.equal(decoder(*inputs), decoder(*inputs))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_causal_layer_without_a_memory_is_an_encoder_s_of_each_prefix(norm: str) -> None:
    # A language model's. Of one layer: through a second, positions would see the whole prefix.
    causal = _build(cross_attention=False, is_causal=True, norm=norm).double().eval()
    encoder = _encoder(norm=norm).double().eval()
    encoder.load_state_dict(causal.state_dict())
    states = torch.randn(1, 5, 16, dtype=torch.float64)
    with torch.no_grad():
        found = causal.layers[0](states, _full(1, 5))
        for length in range(1, 6):
            of_prefix = encoder.layers[0](states[:, :length], _full(1, length))
            torch.testing.assert_close(found[:, length - 1], of_prefix[:, -1])


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("window", [None, 2])
@torch.no_grad()
def test_steps_without_a_source_are_the_full_pass_over_each_prefix(
    norm: str, window: int | None
) -> None:
    causal = _build(
        cross_attention=False, is_causal=True, norm=norm, attention_window=window
    ).double()
    causal.eval()
    cache = causal.start_alone(2, torch.device("cpu"))
    prefixes = torch.empty(2, 1, 0, 16, dtype=torch.float64)
    # For each step: the sentences that stay, and the hypothesis that each new one continues.
    for sentences, parents in (
        ([0, 1], [[0], [0]]),
        ([0, 1], [[0, 0], [0, 0]]),
        ([0, 1], [[1, 0, 1], [0, 1, 1]]),
        ([1], [[2, 0, 0]]),
        ([0], [[1, 1]]),
    ):
        chosen = torch.tensor(parents)
        cache.select(sentences, chosen)
        prefixes = prefixes[sentences][torch.arange(len(sentences))[:, None], chosen]
        newest = torch.randn(*chosen.shape, 16, dtype=torch.float64)
        prefixes = torch.cat((prefixes, newest[:, :, None]), dim=2)
        found = causal.step(newest, cache)
        rows = prefixes.flatten(0, 1)
        whole = causal(rows, _full(*rows.shape[:2]))[:, -1].view_as(found)
        torch.testing.assert_close(found, whole, rtol=0.0, atol=1e-12)
    assert cache.num_steps == 5
