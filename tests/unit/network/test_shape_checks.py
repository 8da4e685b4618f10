"""The shapes in signatures are checked in tests, so that a wrong one cannot go unnoticed."""

import jaxtyping
import pytest
import torch

from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.network.cache import LayerCache
from mtkit.network.embeddings import sinusoids
from mtkit.network.scaled_dot_product import attend
from mtkit.recipe.model import Model


@pytest.fixture(scope="module")
def model() -> EncoderDecoder:
    section = Model(num_encoder_layers=1, num_decoder_layers=1, d_model=8, d_ff=8, num_heads=2)
    return EncoderDecoder(section, 9, 9)


def test_a_layout_of_another_batch_is_refused(model: EncoderDecoder) -> None:
    tokens = torch.zeros(2, 3, dtype=torch.long)
    # Broadcasting would let this mask through.
    with pytest.raises(AssertionError, match="a layout of other tokens"):
        model.encode(tokens, PaddedLayout(torch.ones(1, 3, dtype=torch.bool)))


def test_a_mask_of_numbers_is_refused() -> None:
    with pytest.raises(jaxtyping.TypeCheckError, match="is_token"):
        PaddedLayout(torch.ones(2, 3))


def test_tokens_of_a_step_stand_by_sentence(model: EncoderDecoder) -> None:
    tokens = torch.zeros(2, 3, dtype=torch.long)
    cache = model.start(tokens, PaddedLayout.without_padding(tokens))
    with pytest.raises(jaxtyping.TypeCheckError, match="tokens"):
        model.step(tokens[:, 0], cache)


def test_keys_as_wide_as_no_query_are_refused() -> None:
    with pytest.raises(jaxtyping.TypeCheckError, match="keys"):
        attend(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 5), torch.ones(1, 2, 3, 5))


def test_a_cache_s_fields_are_checked() -> None:
    with pytest.raises(jaxtyping.TypeCheckError, match="source_values"):
        LayerCache(torch.ones(2, 1, 3, 4), torch.ones(2, 1, 5, 4))


def test_results_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "tensor", lambda _: torch.zeros(3))
    with pytest.raises(jaxtyping.TypeCheckError, match="return value"):
        sinusoids(3, 4)
