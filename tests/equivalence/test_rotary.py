"""Rotary positions (arXiv 2104.09864): those of transformers' RoFormer, alike in every layout."""

import pytest
import torch
from torch import Tensor
from transformers import RoFormerConfig, RoFormerForMaskedLM

from mtkit.data.batches.collate import lay_out, pack
from mtkit.data.batches.ragged import Ragged
from mtkit.errors import MtkitError
from mtkit.model.build import build
from mtkit.model.config import ModelConfig
from mtkit.model.exporters.ctranslate2_names import check_convertible
from mtkit.model.transformers_names import convert_to_mtkit, list_counterparts
from mtkit.model.weights import load_weights
from mtkit.network import EncoderDecoder, MaskedLanguageModel, PaddedLayout
from mtkit.network.attention import RotaryPositions, SelfAttention
from mtkit.network.projecting import copy_in
from mtkit.recipe.model import Model

from ..padded import pad_pairs

VOCAB_SIZE = 61
LENGTHS = [9, 4, 16, 1, 7]
ROTARY = Model(
    num_encoder_layers=2,
    num_decoder_layers=2,
    d_model=32,
    d_ff=56,
    num_heads=4,
    dropout=0.0,
    positions="rotary",
    initial_std=0.4,
)


def test_pairs_are_turned_by_the_paper_s_angles() -> None:
    # Section 3.2.2: pair i of a token at position p turns by p / 10000^(2i/d). With d = 4, position
    # 3 turns (1, 0) by 3 and (0, 1) by 0.03. Digits from a table.
    positions = RotaryPositions(4, 1)
    states = torch.tensor([1.0, 0.0, 0.0, 1.0, 7.0]).expand(1, 4, 5)
    turned = positions(states, torch.arange(4)[None], end=4)[0, 3]
    expected = [-0.9899924966, 0.1411200081, -0.0299955002, 0.9995500317, 7.0]
    torch.testing.assert_close(turned, torch.tensor(expected), rtol=0, atol=1e-7)


def _configure() -> ModelConfig:
    """Returns a masked model like a small RoFormer."""
    keys = {"embedding_norm": True, "activation": "gelu", "scale_embeddings": False}
    return ModelConfig(
        recipe="tiny",
        objective="masked-lm",
        next_sentence=False,
        source_language="en",
        target_language="en",
        source_vocab_size=VOCAB_SIZE,
        target_vocab_size=VOCAB_SIZE,
        model=ROTARY.model_copy(update={**keys, "norm_epsilon": 1e-12}),
    )


def _build_roformer() -> tuple[MaskedLanguageModel, RoFormerForMaskedLM]:
    """Returns both networks with the same random weights."""
    torch.manual_seed(3)
    theirs = RoFormerForMaskedLM(
        RoFormerConfig(
            vocab_size=VOCAB_SIZE,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=56,
            hidden_act="gelu",
            max_position_embeddings=64,
        )
    )
    with torch.no_grad():
        for name, weight in theirs.named_parameters():
            if "embed_positions" not in name:
                weight.add_(torch.randn_like(weight) * 0.15)
    config = _configure()
    ours = build(config)
    assert isinstance(ours, MaskedLanguageModel)
    # It names its parts as BERT does.
    weights = {
        name.replace("roformer.", "bert."): weight
        for name, weight in theirs.state_dict().items()
        if "embed_positions" not in name
    }
    bert = config.model_copy(
        update={"model": config.model.model_copy(update={"positions": "learned"})}
    )
    counterparts = [one for one in list_counterparts(bert) if "positions" not in one.origin]
    load_weights(ours, convert_to_mtkit(weights, counterparts))
    return ours.double().eval(), theirs.double().eval()


def test_a_masked_model_is_roformer() -> None:
    ours, theirs = _build_roformer()
    rows = [torch.randint(VOCAB_SIZE, (length,)).tolist() for length in LENGTHS]
    is_token = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    tokens = torch.tensor([row + [0] * (max(LENGTHS) - len(row)) for row in rows])
    segments = torch.randint(2, tokens.shape)
    expected = theirs(tokens, attention_mask=is_token.long(), token_type_ids=segments).logits
    found = ours.predict(ours(tokens, segments, PaddedLayout(is_token)))
    # Their table of angles and ours have 24 bits.
    torch.testing.assert_close(found[is_token], expected[is_token], rtol=0, atol=1e-5)
    changed = ours.predict(ours(tokens.flip(1), segments, PaddedLayout(is_token)))
    assert (changed.flip(1) - expected)[is_token].abs().max() > 1e-2


MAKE = {
    "padded": pad_pairs,
    "grids": lambda source, target: lay_out(source, target, [2, 3], row_step=8),
    "packed": pack,
}


def _translate(kind: str, network: EncoderDecoder) -> tuple[Tensor, list[Tensor]]:
    """Returns the sum of states' squares, and its gradients."""
    torch.manual_seed(6)
    source, target = (
        Ragged.of([torch.randint(4, VOCAB_SIZE, (length,)).tolist() for length in lengths])
        for lengths in (LENGTHS, LENGTHS[::-1])
    )
    batch = MAKE[kind](source, target)
    states = network(
        batch.source_tokens, batch.source_layout, batch.target_inputs, batch.target_layout
    )
    loss = batch.target_layout.select_tokens(states).square().mul(torch.arange(32) + 1.0).sum()
    return loss, list(torch.autograd.grad(loss, list(network.parameters()), allow_unused=True))


@pytest.mark.parametrize("window", [None, 3])
def test_every_layout_turns_each_sentence_by_itself(window: int | None) -> None:
    torch.manual_seed(5)
    model = ROTARY.model_copy(update={"attention_window": window})
    network = EncoderDecoder(model, VOCAB_SIZE, VOCAB_SIZE).double()
    expected, gradients = _translate("padded", network)
    for kind in ("grids", "packed"):
        found, others = _translate(kind, network)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
        for ours, theirs in zip(others, gradients, strict=True):
            if theirs is not None:
                torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-8)


def test_attention_knows_distances_alone() -> None:
    torch.manual_seed(8)
    attention = SelfAttention(ROTARY, is_causal=False).double()
    inputs = torch.randn(1, 7, 32, dtype=torch.float64)

    def attend(first: int) -> Tensor:
        before = torch.zeros(1, first, 32, dtype=torch.float64)
        is_token = torch.arange(first + 7)[None] >= first
        layout = PaddedLayout(is_token)
        found: Tensor = attention(torch.cat((before, inputs), dim=1), layout)
        return found[:, first:]

    # Angles beyond the first table, of 256 positions, too.
    for first in (1, 40, 300):
        torch.testing.assert_close(attend(first), attend(0), rtol=0, atol=2e-5)
    assert not torch.allclose(attention(inputs.flip(1), _all(7)).flip(1), attend(0), atol=1e-3)


def _all(length: int) -> PaddedLayout:
    return PaddedLayout(torch.ones(1, length, dtype=torch.bool))


def test_a_network_in_bfloat16_turns_by_whole_angles() -> None:
    # Position 257 isn't a number of bfloat16's; 256 is its neighbour.
    positions = copy_in(RotaryPositions(2, 1), torch.bfloat16)
    states = torch.tensor([1.0, 0.0], dtype=torch.bfloat16).expand(1, 300, 2)
    turned = positions(states, torch.arange(300)[None], end=300)
    assert turned.dtype == torch.bfloat16
    angles = torch.arange(300.0)
    expected = torch.stack((angles.cos(), angles.sin()), dim=1)
    torch.testing.assert_close(turned[0].float(), expected, rtol=0, atol=1 / 256)


def test_a_table_grown_without_gradients_serves_training_afterwards() -> None:
    positions = RotaryPositions(2, 1)
    states = torch.ones(1, 300, 2)
    with torch.inference_mode():
        positions(states, torch.arange(300)[None], end=300)
    states.requires_grad_()
    positions(states, torch.arange(300)[None], end=300).square().sum().backward()
    # Turns keep lengths.
    torch.testing.assert_close(states.grad, 2 * torch.ones(1, 300, 2))


def test_ctranslate2_and_transformers_refuse_them_by_name() -> None:
    with pytest.raises(MtkitError, match=r'rotary positions \(model.positions = "rotary"\)'):
        check_convertible(ROTARY)
    with pytest.raises(MtkitError, match=r'model\.positions = "rotary", expected "learned"'):
        list_counterparts(_configure())


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"d_key": 3}, "rotary positions need an even d_key, found 3"),
        ({"first_position": 2}, "first_position is for sinusoidal positions"),
    ],
)
def test_what_cannot_be_turned_is_refused(keys: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Model(positions="rotary", **keys)
