"""The weights that `mtkit attend` shows are those of transformers' MarianMTModel."""

from collections.abc import Callable

import pytest
import torch

from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.network import CausalLanguageModel, EncoderDecoder, PaddedLayout
from mtkit.network.layouts import RecordingLayout
from mtkit.recipe.model import Model

PAD, BOS = 0, 2
VOCAB_SIZE = 61


def _build(**keys: object) -> EncoderDecoder:
    torch.manual_seed(20)
    sizes = {"num_encoder_layers": 2, "num_decoder_layers": 3, "d_model": 32, "d_ff": 64}
    model = EncoderDecoder(Model(**{**sizes, "num_heads": 4, **keys}), VOCAB_SIZE, VOCAB_SIZE)
    with torch.no_grad():
        for parameter in model.parameters():
            # Larger, so that heads differ from an even spread.
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def _draw() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    sources, targets = torch.randint(4, VOCAB_SIZE, (3, 9)), torch.randint(4, VOCAB_SIZE, (3, 6))
    is_token = torch.arange(9) < torch.tensor([9, 4, 7])[:, None]
    sources[~is_token] = PAD
    targets[:, 0] = BOS
    return sources, is_token, targets


@torch.no_grad()
def test_weights_are_marians(marian_twin: Callable) -> None:
    model = _build()
    twin = marian_twin(model)
    twin.set_attn_implementation("eager")
    sources, is_token, targets = _draw()
    source_layout = RecordingLayout(is_token)
    target_layout = RecordingLayout(torch.ones_like(targets, dtype=torch.bool))
    model(sources, source_layout, targets, target_layout)
    theirs = twin(
        input_ids=sources,
        attention_mask=is_token.long(),
        decoder_input_ids=targets,
        output_attentions=True,
    )
    pairs = [
        *zip(source_layout.weights, theirs.encoder_attentions, strict=True),
        *zip(target_layout.weights[0::2], theirs.decoder_attentions, strict=True),
        *zip(target_layout.weights[1::2], theirs.cross_attentions, strict=True),
    ]
    assert len(pairs) == 2 + 3 + 3
    for ours, other in pairs:
        torch.testing.assert_close(ours, other, rtol=0, atol=1e-5)
        torch.testing.assert_close(ours.sum(dim=-1), torch.ones(ours.shape[:3]))
        # Some look at a token more than at others.
        assert ours.max() > 0.5


@pytest.mark.parametrize(
    "keys",
    [{}, {"attention_window": 2}, {"norm": "pre", "d_key": 5}, {"positions": "rotary"}],
    ids=str,
)
@torch.no_grad()
def test_the_network_computes_the_same(keys: dict) -> None:
    model = _build(**keys)
    sources, is_token, targets = _draw()
    whole = torch.ones_like(targets, dtype=torch.bool)
    plain = model(sources, PaddedLayout(is_token), targets, PaddedLayout(whole))
    source_layout = RecordingLayout(is_token)
    recorded = model(sources, source_layout, targets, RecordingLayout(whole))
    torch.testing.assert_close(recorded, plain, rtol=0, atol=1e-5)
    # Nothing is attended to that is padding, or beyond the window.
    weights = source_layout.weights[0]
    seen = weights.masked_fill(~is_token[:, None, :, None], 0.0)
    assert not seen.masked_select(~is_token[:, None, None].expand_as(weights)).any()
    if "attention_window" in keys:
        ahead = torch.arange(9) - torch.arange(9)[:, None]
        far = (ahead.abs() > 2).expand_as(weights) & is_token[:, None, :, None]
        assert not weights.masked_select(far).any()


@torch.no_grad()
def test_an_engine_tells_the_greatest_of_marians_heads(marian_twin: Callable) -> None:
    model = _build()
    twin = marian_twin(model)
    twin.set_attn_implementation("eager")
    source, targets = [7, 9, 4, 3], [[11, 12, 3], [13, 3]]
    found = TorchEngine(model, "cpu").attend(source, targets)
    assert found is not None
    for weights, target in zip(found, targets, strict=True):
        theirs = twin(
            input_ids=torch.tensor([source]),
            decoder_input_ids=torch.tensor([[BOS, *target[:-1]]]),
            output_attentions=True,
        )
        expected = theirs.cross_attentions[-1][0].amax(dim=0)
        torch.testing.assert_close(torch.from_numpy(weights), expected, rtol=0, atol=1e-5)
    # Of an ensemble the mean.
    other = _build(num_decoder_layers=1)
    both, (alone, *_) = (
        TorchEngine(models, "cpu").attend(source, targets[:1]) for models in ([model, other], other)
    )
    assert both is not None
    torch.testing.assert_close(torch.from_numpy(both[0]), torch.from_numpy((found[0] + alone) / 2))


def test_a_decoder_alone_attends_to_no_source() -> None:
    model = CausalLanguageModel(Model(num_decoder_layers=1, d_model=16, num_heads=2), VOCAB_SIZE)
    assert TorchEngine(model, "cpu").attend([7, 3], [[8, 3]]) is None
