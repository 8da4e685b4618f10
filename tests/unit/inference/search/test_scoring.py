import math

import pytest
import torch

from mtkit.inference.search.scoring import score_targets
from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.recipe.model import Model
from mtkit.text.token_ids import BOS, EOS


@pytest.fixture
def model() -> EncoderDecoder:
    torch.manual_seed(1)
    shape = Model(num_encoder_layers=1, num_decoder_layers=2, d_model=16, d_ff=32, num_heads=2)
    return EncoderDecoder(shape, 12, 12).eval()


def test_each_token_is_given_all_before_it(model):
    source = torch.tensor([[5, 6, EOS]])
    target = [7, 8, 4, EOS]
    expected = []
    with torch.no_grad():
        for length in range(1, 5):
            begun = torch.tensor([[BOS, *target[: length - 1]]])
            logits = model.project(
                model(source, PaddedLayout(source > 0), begun, PaddedLayout.without_padding(begun))
            )[0, -1].tolist()
            normaliser = math.log(sum(math.exp(logit) for logit in logits))
            expected.append(logits[target[length - 1]] - normaliser)
        scores = score_targets(model, source, PaddedLayout(source > 0), torch.tensor([target]))
    assert scores[0].tolist() == pytest.approx(expected, abs=1e-5)


def test_padding_counts_for_nothing(model):
    sources = torch.tensor([[5, 6, EOS, 0], [9, 8, 7, EOS]])
    targets = torch.tensor([[7, EOS, 0], [4, 4, EOS]])
    with torch.no_grad():
        together = score_targets(model, sources, PaddedLayout(sources > 0), targets)
        alone = score_targets(
            model, sources[:1, :3], PaddedLayout(sources[:1, :3] > 0), targets[:1, :2]
        )
    torch.testing.assert_close(together[:1, :2], alone, rtol=0, atol=1e-5)
