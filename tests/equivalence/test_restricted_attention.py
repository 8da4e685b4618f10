"""Restricted self-attention (arXiv 1706.03762, section 4): a window of r positions either side."""

import math

import pytest
import torch
from torch import Tensor

from mtkit.network import EncoderDecoder, PaddedLayout, scaled_dot_product
from mtkit.network.scaled_dot_product import AttentionOptions, attend, choose_block
from mtkit.recipe.model import Model

VOCAB_SIZE = 31
LENGTHS = [9, 4, 7]


def build(window: int | None, *, num_layers: int = 1, norm: str = "post") -> EncoderDecoder:
    torch.manual_seed(11)
    section = Model(
        num_encoder_layers=num_layers,
        num_decoder_layers=num_layers,
        d_model=16,
        d_ff=24,
        num_heads=2,
        dropout=0.0,
        norm=norm,
        attention_window=window,
    )
    return EncoderDecoder(section, VOCAB_SIZE, VOCAB_SIZE).double()


def inputs() -> tuple[Tensor, PaddedLayout, Tensor, PaddedLayout]:
    torch.manual_seed(12)
    is_token = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    source, target = torch.randint(VOCAB_SIZE, (3, 9)), torch.randint(VOCAB_SIZE, (3, 8))
    return source, PaddedLayout(is_token), target, PaddedLayout.without_padding(target)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("sees", ["all", "those before", "no padding"])
@pytest.mark.parametrize("length", [7, 20])
@pytest.mark.parametrize("window", [1, 2, 4])
def test_is_a_softmax_over_the_neighbourhood(
    window: int, length: int, sees: str, *, requires_grad: bool
) -> None:
    torch.manual_seed(13)
    queries, keys, values = torch.randn(3, 1, 1, length, 4, dtype=torch.float64)
    queries.requires_grad_(requires_grad)
    num_tokens = length - 2 if sees == "no padding" else length
    output = attend(
        queries,
        keys,
        values,
        AttentionOptions(is_causal=sees == "those before", window=window),
        memory_is_token=torch.arange(length)[None] < num_tokens if sees == "no padding" else None,
    ).detach()[0, 0]
    for place in range(num_tokens):
        last = place if sees == "those before" else min(place + window, num_tokens - 1)
        seen = range(max(0, place - window), last + 1)
        query = queries[0, 0, place].detach()
        weights = [math.exp(float(query @ keys[0, 0, key]) / 2.0) for key in seen]
        expected = sum(
            weight / sum(weights) * values[0, 0, key]
            for weight, key in zip(weights, seen, strict=True)
        )
        torch.testing.assert_close(output[place], expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("sees", ["all", "those before", "no padding"])
@pytest.mark.parametrize(("length", "window"), [(72, 1), (97, 5), (200, 33), (300, 40)])
def test_bands_of_a_long_text_are_the_whole_mask(
    length: int, window: int, sees: str, *, requires_grad: bool, monkeypatch
) -> None:
    options = AttentionOptions(is_causal=sees == "those before", window=window)
    assert choose_block(length, window, is_causal=options.is_causal) > 0
    is_token = None
    if sees == "no padding":
        is_token = torch.arange(length)[None] < torch.tensor([length - 7, length])[:, None]
    found = []
    for min_gain in (scaled_dot_product._MIN_GAIN, math.inf):
        monkeypatch.setattr(scaled_dot_product, "_MIN_GAIN", min_gain)
        torch.manual_seed(14)
        heads = [torch.randn(2, 3, length, each, dtype=torch.float64) for each in (4, 4, 6)]
        for each in heads:
            each.requires_grad_(requires_grad)
        output = attend(*heads, options, memory_is_token=is_token)
        if is_token is not None:
            output = output * is_token[:, None, :, None]
        gradients = torch.autograd.grad(output.square().sum(), heads) if requires_grad else ()
        found.append([output.detach(), *gradients])
    for ours, whole in zip(*found, strict=True):
        torch.testing.assert_close(ours, whole, rtol=0.0, atol=1e-12)
        assert ours.abs().max() > 0.1


def test_short_texts_are_attended_whole() -> None:
    assert [choose_block(n, 4, is_causal=False) for n in (20, 79, 80, 5_000)] == [0, 0, 32, 32]
    assert choose_block(5_000, 100, is_causal=True) == 100


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_window_as_wide_as_the_text_is_full_attention(norm: str) -> None:
    full, wide, narrow = (
        build(window, num_layers=2, norm=norm)(*inputs()) for window in (None, 9, 1)
    )
    torch.testing.assert_close(wide, full, rtol=0.0, atol=1e-13)
    assert (narrow - full).abs().max() > 1e-3


@pytest.mark.parametrize("window", [1, 3])
def test_what_stands_beyond_the_window_has_no_gradient(window: int) -> None:
    # One layer: in two, a neighbour's neighbour is seen through the neighbour.
    layer = build(window).encoder.layers[0]
    states = torch.randn(1, 9, 16, dtype=torch.float64, requires_grad=True)
    layout = PaddedLayout(torch.ones(1, 9, dtype=torch.bool))
    for place in range(9):
        [gradient] = torch.autograd.grad(layer(states, layout)[0, place].sin().sum(), states)
        seen = [bool(row.abs().max() > 0) for row in gradient[0]]
        assert seen == [abs(place - other) <= window for other in range(9)]


@pytest.mark.parametrize("window", [1, 3])
def test_the_decoder_sees_as_far_back_and_never_ahead(window: int) -> None:
    layer = build(window).decoder.layers[0]
    states = torch.randn(1, 9, 16, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(1, 5, 16, dtype=torch.float64)
    layout, memory_layout = (
        PaddedLayout(torch.ones(1, length, dtype=torch.bool)) for length in (9, 5)
    )
    for place in range(9):
        outcome = layer(states, layout, memory, memory_layout)[0, place].sin().sum()
        [gradient] = torch.autograd.grad(outcome, states)
        seen = [bool(row.abs().max() > 0) for row in gradient[0]]
        assert seen == [0 <= place - other <= window for other in range(9)]


@pytest.mark.parametrize("window", [1, 2, 5])
@torch.no_grad()
def test_cached_is_uncached(window: int) -> None:
    model = build(window, num_layers=2).eval()
    source, source_layout, target, target_layout = inputs()
    cache = model.start(source, source_layout)
    whole = model.project(model(source, source_layout, target, target_layout))
    for step in range(target.shape[1]):
        logits = model.step(target[:, step, None], cache)
        torch.testing.assert_close(logits[:, 0], whole[:, step], rtol=0.0, atol=1e-12)


def test_padding_far_from_any_token_is_a_number_on_every_path() -> None:
    torch.manual_seed(14)
    states = torch.randn(3, 1, 2, 9, 4, dtype=torch.float64)
    is_token = torch.arange(9)[None] < 3
    outcomes = []
    for requires_grad in (False, True):
        queries, keys, values = (part.clone().requires_grad_(requires_grad) for part in states)
        options = AttentionOptions(window=2)
        outcomes.append(attend(queries, keys, values, options, memory_is_token=is_token).detach())
    torch.testing.assert_close(*outcomes, rtol=0.0, atol=1e-12)
    assert outcomes[0].isfinite().all()
    # What stands beyond all tokens sees itself alone.
    torch.testing.assert_close(outcomes[0][..., 8, :], states[2][..., 8, :], rtol=0.0, atol=1e-12)
