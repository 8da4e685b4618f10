import pytest
import torch
from torch import nn

from mtkit.network import MaskedLanguageModel, PaddedLayout
from mtkit.recipe.model import Model

VOCAB_SIZE = 13


def _build(*, next_sentence: bool = True, **keys: object) -> MaskedLanguageModel:
    torch.manual_seed(15)
    sizes = {"num_encoder_layers": 2, "num_decoder_layers": 5, "d_model": 16, "d_ff": 24}
    section = Model(**{**sizes, "num_heads": 2, **keys})
    return MaskedLanguageModel(section, VOCAB_SIZE, next_sentence=next_sentence)


def _read(
    model: MaskedLanguageModel, tokens: torch.Tensor, segments: torch.Tensor
) -> tuple[torch.Tensor, PaddedLayout]:
    layout = PaddedLayout.without_padding(tokens)
    return model(tokens, segments, layout), layout


def _draw() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(VOCAB_SIZE, (3, 5))
    segments = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 1, 1, 1], [0, 0, 0, 0, 0]])
    return tokens, segments


@pytest.mark.parametrize("tied", ["three-way", "decoder", "none"])
def test_input_and_output_share_a_matrix_unless_told_otherwise(tied: str) -> None:
    model = _build(tied_embeddings=tied)
    is_shared = model.output_embedding.weight is model.source_embedding.tokens.weight
    assert is_shared == (tied != "none")


@pytest.mark.parametrize("tied", ["three-way", "none"])
@pytest.mark.parametrize("next_sentence", [False, True])
def test_every_parameter_learns(tied: str, *, next_sentence: bool) -> None:
    keys = {"positions": "learned", "max_positions": 5, "embedding_norm": True}
    model = _build(next_sentence=next_sentence, tied_embeddings=tied, **keys)
    states, layout = _read(model, *_draw())
    loss = model.predict(states).log_softmax(dim=-1)[..., 1].sum()
    if next_sentence:
        loss = loss + model.classify_pair(states, layout).log_softmax(dim=-1)[:, 1].sum()
    loss.backward()
    idle = [name for name, weights in model.named_parameters() if not weights.grad.any()]
    assert idle == []


def test_every_token_sees_every_other() -> None:
    model = _build().eval()
    tokens, segments = _draw()
    changed = tokens.clone()
    changed[:, 3] = (changed[:, 3] + 1) % VOCAB_SIZE
    with torch.no_grad():
        before, after = _read(model, tokens, segments)[0], _read(model, changed, segments)[0]
    assert (after - before).abs().amax(dim=-1).gt(1e-4).all()


def test_the_part_that_a_token_is_of_counts() -> None:
    model = _build().eval()
    tokens, segments = _draw()
    with torch.no_grad():
        before = _read(model, tokens, segments)[0]
        after = _read(model, tokens, 1 - segments)[0]
        model.source_embedding.segments.weight[1] = model.source_embedding.segments.weight[0]
        alike = [_read(model, tokens, each)[0] for each in (segments, 1 - segments)]
    assert (after - before).abs().amax(dim=-1).gt(1e-4).all()
    assert torch.equal(*alike)


def test_a_masked_token_is_predicted_through_a_map_an_activation_and_a_norm() -> None:
    # BERT's code (github.com/google-research/bert, run_pretraining.py, get_masked_lm_output).
    model = _build(activation="gelu", norm_epsilon=1e-3)
    for bias in (model.output_bias, model.masked_head.dense.bias):
        nn.init.normal_(bias)
    states = torch.randn(4, 16)
    mapped = states @ model.masked_head.dense.weight.T + model.masked_head.dense.bias
    activated = mapped * 0.5 * (1 + torch.erf(mapped / 2**0.5))
    centred = activated - activated.mean(dim=1, keepdim=True)
    normed = centred / (centred.square().mean(dim=1, keepdim=True) + 1e-3).sqrt()
    expected = normed @ model.source_embedding.tokens.weight.T + model.output_bias
    torch.testing.assert_close(model.predict(states), expected)


def test_a_pair_is_told_by_its_first_token() -> None:
    model = _build()
    nn.init.normal_(model.next_sentence.bias)
    states = torch.randn(3, 5, 16)
    layout = PaddedLayout(torch.ones(3, 5, dtype=torch.bool))
    pooled = torch.tanh(states[:, 0] @ model.pooler.weight.T + model.pooler.bias)
    expected = pooled @ model.next_sentence.weight.T + model.next_sentence.bias
    torch.testing.assert_close(model.classify_pair(states, layout), expected)
    with pytest.raises(AssertionError, match="without next-sentence"):
        _build(next_sentence=False).classify_pair(states, layout)


def test_segments_are_for_networks_that_have_them() -> None:
    model = _build()
    tokens, segments = _draw()
    layout = PaddedLayout.without_padding(tokens)
    with pytest.raises(AssertionError, match="adds vectors of segments"):
        model.source_embedding(tokens, layout)
    model.source_embedding.segments = None
    with pytest.raises(AssertionError, match="has no vectors of segments"):
        model.source_embedding(tokens, layout, segments)
