import pytest
import torch
from torch import nn

from mtkit.network import CausalLanguageModel, PaddedLayout
from mtkit.recipe.model import Model

VOCAB_SIZE = 13


def _build(**keys: object) -> CausalLanguageModel:
    torch.manual_seed(15)
    sizes = {"num_encoder_layers": 5, "num_decoder_layers": 2, "d_model": 16, "d_ff": 24}
    return CausalLanguageModel(Model(**{**sizes, "num_heads": 2, **keys}), VOCAB_SIZE)


def _read(model: CausalLanguageModel, tokens: torch.Tensor) -> torch.Tensor:
    return model(tokens, PaddedLayout.without_padding(tokens))


@pytest.mark.parametrize("tied", ["three-way", "decoder", "none"])
def test_input_and_output_share_a_matrix_unless_told_otherwise(tied: str) -> None:
    model = _build(tied_embeddings=tied)
    is_shared = model.output_embedding.weight is model.target_embedding.tokens.weight
    assert is_shared == (tied != "none")


def test_it_has_the_decoders_layers_without_attention_to_a_source() -> None:
    model = _build()
    assert len(model.decoder.layers) == 2
    assert not any(layer.has_cross_attention for layer in model.decoder.layers)


@pytest.mark.parametrize("tied", ["three-way", "none"])
def test_every_parameter_learns(tied: str) -> None:
    model = _build(tied_embeddings=tied, positions="learned", max_positions=5, output_bias=True)
    states = _read(model, torch.randint(VOCAB_SIZE, (3, 5)))
    model.project(states).log_softmax(dim=-1)[..., 1].sum().backward()
    idle = [name for name, weights in model.named_parameters() if not weights.grad.any()]
    assert idle == []


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_later_token_leaves_earlier_outputs_the_same(norm: str) -> None:
    model = _build(norm=norm).eval()
    tokens = torch.randint(VOCAB_SIZE, (2, 5))
    changed = tokens.clone()
    changed[:, 3] = (changed[:, 3] + 1) % VOCAB_SIZE
    with torch.no_grad():
        before, after = _read(model, tokens), _read(model, changed)
    torch.testing.assert_close(after[:, :3], before[:, :3], rtol=0, atol=1e-6)
    assert (after[:, 3:] - before[:, 3:]).abs().amax(dim=-1).gt(1e-3).all()


def test_logits_are_products_with_the_token_vectors_plus_the_bias() -> None:
    model = _build(output_bias=True)
    assert model.output_bias is not None
    nn.init.normal_(model.output_bias)
    states = torch.randn(2, 3, 16)
    by_hand = model.output_bias[7] + sum(
        states[1, 2, index] * model.target_embedding.tokens.weight[7, index] for index in range(16)
    )
    torch.testing.assert_close(model.project(states)[1, 2, 7], by_hand)


@pytest.mark.parametrize("epsilon", [1e-12, 0.1])
def test_every_norm_has_the_recipes_epsilon(epsilon: float) -> None:
    model = _build(norm="pre", embedding_norm=True, norm_epsilon=epsilon)
    norms = [part for part in model.modules() if isinstance(part, nn.LayerNorm)]
    # Two a layer, one behind the last, one of the embeddings.
    assert len(norms) == 6
    assert {norm.eps for norm in norms} == {epsilon}
