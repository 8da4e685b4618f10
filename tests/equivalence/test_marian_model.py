"""Our logits are those of transformers' MarianMTModel on the same weights."""

from collections.abc import Callable

import pytest
import torch

from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.recipe.model import Model

PAD, BOS, EOS = 0, 2, 3
VOCAB_SIZE = 61


def _build(**keys: object) -> EncoderDecoder:
    torch.manual_seed(20)
    sizes = {"num_encoder_layers": 2, "num_decoder_layers": 3, "d_model": 32, "d_ff": 64}
    section = Model(**{**sizes, "num_heads": 4, **keys})
    model = EncoderDecoder(section, VOCAB_SIZE, VOCAB_SIZE).eval()
    with torch.no_grad():
        # Biases start at 0 and norms at 1, where a swapped pair would go unseen.
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_logits_of_a_padded_batch_agree(marian_twin: Callable, activation: str) -> None:
    model = _build(activation=activation)
    twin = marian_twin(model)
    source_tokens = torch.randint(4, VOCAB_SIZE, (3, 9))
    lengths = torch.tensor([9, 4, 7])
    source_is_token = torch.arange(9) < lengths[:, None]
    source_tokens[~source_is_token] = PAD
    source_tokens[torch.arange(3), lengths - 1] = EOS
    target_tokens = torch.randint(4, VOCAB_SIZE, (3, 6))
    target_tokens[:, 0] = BOS

    with torch.no_grad():
        ours = model.project(
            model(
                source_tokens,
                PaddedLayout(source_is_token),
                target_tokens,
                PaddedLayout.without_padding(target_tokens),
            )
        )
        # Without labels, as a caller that forces a known translation does.
        theirs = twin(
            input_ids=source_tokens,
            attention_mask=source_is_token.long(),
            decoder_input_ids=target_tokens,
        ).logits

    assert ours.abs().max() > 1.0
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)


def test_logits_of_one_sentence_without_a_mask_agree(marian_twin: Callable) -> None:
    model = _build(num_encoder_layers=1, num_decoder_layers=1)
    source_tokens = torch.randint(4, VOCAB_SIZE, (1, 5))
    target_tokens = torch.randint(4, VOCAB_SIZE, (1, 8))

    with torch.no_grad():
        source_is_token = torch.ones_like(source_tokens, dtype=torch.bool)
        ours = model.project(
            model(
                source_tokens,
                PaddedLayout(source_is_token),
                target_tokens,
                PaddedLayout.without_padding(target_tokens),
            )
        )
        theirs = marian_twin(model)(input_ids=source_tokens, decoder_input_ids=target_tokens).logits

    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)


def test_the_loss_marian_computes_from_labels_is_the_cross_entropy_of_our_logits(
    marian_twin: Callable,
) -> None:
    model = _build()
    source_tokens = torch.randint(4, VOCAB_SIZE, (2, 6))
    source_is_token = torch.ones_like(source_tokens, dtype=torch.bool)
    labels = torch.randint(4, VOCAB_SIZE, (2, 5))
    # Marian shifts labels behind its start token, which our batches do when they are made.
    shifted = torch.cat((torch.full((2, 1), BOS), labels[:, :-1]), dim=1)

    with torch.no_grad():
        logits = model.project(
            model(
                source_tokens,
                PaddedLayout(source_is_token),
                shifted,
                PaddedLayout.without_padding(shifted),
            )
        )
        ours = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        theirs = marian_twin(model)(input_ids=source_tokens, labels=labels).loss

    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)
