import pytest
import torch

from mtkit.data.batches.ragged import Ragged
from mtkit.network import EncoderDecoder
from mtkit.recipe.model import Model
from mtkit.text.token_ids import EOS
from mtkit.training.loss import measure_translation

from ...padded import pad_pairs


@pytest.mark.parametrize("tied_embeddings", ["three-way", "none"])
def test_the_output_s_bias_is_part_of_every_logit(tied_embeddings: str) -> None:
    torch.manual_seed(5)
    shape = Model(
        num_encoder_layers=1,
        num_decoder_layers=1,
        d_model=16,
        d_ff=24,
        num_heads=2,
        dropout=0.0,
        tied_embeddings=tied_embeddings,
        output_bias=True,
    )
    model = EncoderDecoder(shape, 23, 23).double()
    with torch.no_grad():
        model.output_bias.normal_()
    batch = pad_pairs(Ragged.of([[5, 6, EOS], [9, EOS]]), Ragged.of([[5, EOS], [6, 4, 5, EOS]]))
    found = measure_translation(model, batch, label_smoothing=0.1).loss
    states = model(
        batch.source_tokens, batch.source_layout, batch.target_inputs, batch.target_layout
    )
    logits = model.project(states)
    by_hand = states @ model.output_embedding.weight.T + model.output_bias
    torch.testing.assert_close(logits, by_hand)
    expected = torch.nn.functional.cross_entropy(
        logits[batch.target_layout.is_token],
        batch.target_outputs,
        label_smoothing=0.1,
        reduction="sum",
    )
    torch.testing.assert_close(found, expected)
    weights = list(model.parameters())
    for ours, theirs in zip(
        torch.autograd.grad(found, weights, retain_graph=True),
        torch.autograd.grad(expected, weights),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-9)
