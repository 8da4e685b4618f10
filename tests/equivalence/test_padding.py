"""Padding never reaches a real token: not its output, not a gradient, whatever the padding is."""

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.recipe.model import Model

VOCAB_SIZE = 19
# fp64, where only the order of sums differs between lengths.
TOLERANCE = 1e-12


def _build(**keys: object) -> EncoderDecoder:
    torch.manual_seed(4)
    sizes = {"num_encoder_layers": 2, "num_decoder_layers": 2, "d_model": 16, "d_ff": 24}
    section = Model(**{**sizes, "num_heads": 2, "dropout": 0.0, **keys})
    return EncoderDecoder(section, VOCAB_SIZE, VOCAB_SIZE).double()


@functools.cache
def _model(norm: str) -> EncoderDecoder:
    if norm == "post":
        return _build()
    return _build(norm="pre", positions="learned", max_positions=40, activation="swiglu")


def _pad(sentences: list[list[int]], extra: int, padding_id: int) -> tuple[Tensor, Tensor]:
    """Returns sentences in one tensor, `extra` columns wider than the longest, and what is real."""
    width = max(len(sentence) for sentence in sentences) + extra
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    rows = [sentence + [padding_id] * (width - len(sentence)) for sentence in sentences]
    return torch.tensor(rows), torch.arange(width) < lengths[:, None]


def _read(model: EncoderDecoder, source: Tensor, source_is_token: Tensor, target: Tensor) -> Tensor:
    return model(
        source, PaddedLayout(source_is_token), target, PaddedLayout.without_padding(target)
    )


def _run(
    model: EncoderDecoder, source: tuple[Tensor, Tensor], target: tuple[Tensor, Tensor]
) -> tuple[Tensor, dict[str, Tensor]]:
    """Returns the states of real target positions, and all gradients of a function of them."""
    model.zero_grad(set_to_none=True)
    target_layout = PaddedLayout(target[1])
    states = target_layout.select_tokens(
        model(source[0], PaddedLayout(source[1]), target[0], target_layout)
    )
    weights = torch.linspace(-1.0, 1.0, states.numel(), dtype=states.dtype).view_as(states)
    (states * weights).sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return states.detach(), gradients


sentence = st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=8)
pairs = st.lists(st.tuples(sentence, sentence), min_size=1, max_size=4)
paddings = st.tuples(st.integers(0, 6), st.integers(0, VOCAB_SIZE - 1))


@pytest.mark.parametrize("norm", ["post", "pre"])
@settings(max_examples=12, deadline=None)
@given(pairs=pairs, source_padding=paddings, target_padding=paddings)
def test_extra_padding_changes_no_output_and_no_gradient(
    norm: str,
    pairs: list[tuple[list[int], list[int]]],
    source_padding: tuple[int, int],
    target_padding: tuple[int, int],
) -> None:
    model = _model(norm).train()
    sources = [source for source, _ in pairs]
    targets = [target for _, target in pairs]

    plain = _run(model, _pad(sources, 0, 0), _pad(targets, 0, 0))
    padded = _run(model, _pad(sources, *source_padding), _pad(targets, *target_padding))

    torch.testing.assert_close(padded[0], plain[0], rtol=0, atol=TOLERANCE)
    for name, gradient in plain[1].items():
        torch.testing.assert_close(padded[1][name], gradient, rtol=1e-10, atol=TOLERANCE, msg=name)


@pytest.mark.parametrize("norm", ["post", "pre"])
@settings(max_examples=12, deadline=None)
@given(pairs=pairs, source_padding=paddings, target_padding=paddings, other=st.integers(1, 18))
def test_what_padding_holds_changes_no_bit(
    norm: str,
    pairs: list[tuple[list[int], list[int]]],
    source_padding: tuple[int, int],
    target_padding: tuple[int, int],
    other: int,
) -> None:
    model = _model(norm).train()
    sources = [source for source, _ in pairs]
    targets = [target for _, target in pairs]
    sides = ((sources, *source_padding), (targets, *target_padding))

    one = _run(model, *(_pad(*side) for side in sides))
    another = _run(
        model,
        *(_pad(lines, extra, (padding + other) % VOCAB_SIZE) for lines, extra, padding in sides),
    )

    assert torch.equal(one[0], another[0])
    for name, gradient in one[1].items():
        assert torch.equal(gradient, another[1][name]), name


@pytest.mark.parametrize("norm", ["post", "pre"])
@settings(max_examples=10, deadline=None)
@given(pairs=pairs, padding_id=st.integers(0, VOCAB_SIZE - 1))
def test_a_batch_gives_what_its_sentences_give_alone(
    norm: str, pairs: list[tuple[list[int], list[int]]], padding_id: int
) -> None:
    model = _model(norm).eval()
    with torch.no_grad():
        source = _pad([source for source, _ in pairs], 0, padding_id)
        target_tokens, _ = _pad([target for _, target in pairs], 0, padding_id)
        together = _read(model, *source, target_tokens)
        for states, (source_tokens, target) in zip(together, pairs, strict=True):
            alone = _read(model, *_pad([source_tokens], 0, 0), torch.tensor([target]))[0]
            torch.testing.assert_close(states[: len(target)], alone, rtol=0, atol=TOLERANCE)
