import math

import pytest
import torch
from torch import nn

from mtkit.network import EncoderDecoder
from mtkit.recipe.model import Model

D_MODEL, D_FF, HEADS, D_KEY, D_VALUE, VOCAB_SIZE = 64, 96, 4, 8, 24, 3000


def _build(**keys: object) -> EncoderDecoder:
    torch.manual_seed(16)
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "d_model": D_MODEL, "d_ff": D_FF}
    widths = {"num_heads": HEADS, "d_key": D_KEY, "d_value": D_VALUE}
    return EncoderDecoder(Model(**{**sizes, **widths, **keys}), VOCAB_SIZE, VOCAB_SIZE)


def _assert_glorot(weight: torch.Tensor, fan_in: int, fan_out: int) -> None:
    """Glorot and Bengio 2010, equation 16: even between +-sqrt(6 / (fan_in + fan_out))."""
    assert weight.shape == (fan_out, fan_in)
    bound = math.sqrt(6 / (fan_in + fan_out))
    assert weight.abs().max().item() <= bound
    # Of 2,048 draws at least, one stands in the outermost hundredth but for one time in 10^8.
    assert weight.abs().max().item() > 0.99 * bound
    # An even spread's standard deviation is bound / sqrt(3).
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
    assert weight.mean().item() == pytest.approx(0.0, abs=5 * bound / math.sqrt(3 * weight.numel()))


def test_each_map_has_glorot_s_bound_of_its_own_width() -> None:
    model = _build()
    keys, values = HEADS * D_KEY, HEADS * D_VALUE
    for attention in (
        model.encoder.layers[0].attention,
        model.decoder.layers[0].self_attention,
    ):
        query, key, value = attention.query_key_value.weight.split([keys, keys, values])
        _assert_glorot(query, D_MODEL, keys)
        _assert_glorot(key, D_MODEL, keys)
        _assert_glorot(value, D_MODEL, values)
        _assert_glorot(attention.output.weight, values, D_MODEL)
    attention = model.decoder.layers[0].cross_attention
    key, value = attention.key_value.weight.split([keys, values])
    _assert_glorot(attention.query.weight, D_MODEL, keys)
    _assert_glorot(key, D_MODEL, keys)
    _assert_glorot(value, D_MODEL, values)
    for layer in (model.encoder.layers[0], model.decoder.layers[0]):
        _assert_glorot(layer.feed_forward.inner.weight, D_MODEL, D_FF)
        _assert_glorot(layer.feed_forward.output.weight, D_FF, D_MODEL)


def test_a_gate_and_what_it_gates_are_two_maps() -> None:
    feed_forward = _build(activation="swiglu").encoder.layers[0].feed_forward
    gate, gated = feed_forward.inner.weight.split([D_FF, D_FF])
    _assert_glorot(gate, D_MODEL, D_FF)
    _assert_glorot(gated, D_MODEL, D_FF)


def test_embeddings_have_variance_one_over_the_width() -> None:
    model = _build(tied_embeddings="none", positions="learned", max_positions=2000)
    for weight in (
        model.source_embedding.tokens.weight,
        model.target_embedding.tokens.weight,
        model.output_embedding.weight,
        model.source_embedding.positions.weight,
        model.target_embedding.positions.weight,
    ):
        # 1 / sqrt(64); 128,000 draws at least put the estimate within 1%.
        assert weight.std().item() == pytest.approx(0.125, rel=0.01)
        assert weight.mean().item() == pytest.approx(0.0, abs=5 * 0.125 / weight.numel() ** 0.5)


def test_biases_are_zero_and_norms_one() -> None:
    model = _build(norm="pre")
    for part in model.modules():
        if isinstance(part, nn.Linear | nn.LayerNorm):
            assert not part.bias.any()
        if isinstance(part, nn.LayerNorm):
            assert part.weight.eq(1).all()


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_one_deviation_serves_every_matrix_where_the_recipe_names_it(activation: str) -> None:
    keys = {"positions": "learned", "max_positions": 2000, "activation": activation}
    model = _build(initial_std=0.02, norm="pre", **keys)
    matrices = {name: weight for name, weight in model.named_parameters() if weight.dim() > 1}
    # Four of an encoder layer, seven of a decoder layer, token vectors, two tables of positions.
    assert len(matrices) == 14
    for name, weight in matrices.items():
        # GPT and BERT draw all of them from N(0, 0.02). The estimate's own deviation is
        # 0.02 / sqrt(2 n), at most 0.02 / 111 for the 6,144 numbers of the smallest.
        assert weight.std().item() == pytest.approx(0.02, rel=0.05), name
        # A normal distribution has 0.27 % of its mass beyond three deviations; an even one none.
        beyond = weight.abs().gt(0.06).float().mean().item()
        assert 0.0 < beyond < 0.007, name
    for part in model.modules():
        if isinstance(part, nn.Linear | nn.LayerNorm):
            assert not part.bias.any()
        if isinstance(part, nn.LayerNorm):
            assert part.weight.eq(1).all()


def test_the_seed_decides_every_weight() -> None:
    first, again = _build().state_dict(), _build().state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
