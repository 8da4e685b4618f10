"""Filled batches: few shapes, and the numbers of those that aren't filled."""

import pytest
import torch

from mtkit.data.batches.collate import pack
from mtkit.data.batches.filling import Filling
from mtkit.data.batches.ragged import Ragged
from mtkit.network import EncoderDecoder
from mtkit.recipe.model import Model
from mtkit.text.token_ids import EOS, PAD
from mtkit.training.loss import measure_translation

VOCAB_SIZE = 31


def draw(generator: torch.Generator, count: int, longest: int) -> tuple[Ragged, Ragged]:
    sides = []
    for _ in range(2):
        lengths = torch.randint(1, longest, (count,), generator=generator).tolist()
        draws = [torch.randint(4, VOCAB_SIZE, (n,), generator=generator) for n in lengths]
        sides.append(Ragged.of([[*row.tolist(), EOS] for row in draws]))
    return sides[0], sides[1]


@pytest.mark.parametrize("longest", [2, 9, 40])
@pytest.mark.parametrize("row_step", [1, 8, 64])
def test_sides_are_whole_steps_and_every_sentence_of_padding_has_tokens(longest, row_step):
    filling = Filling(row_step, max_length=longest)
    shapes = set()
    for count in range(1, 60, 7):
        batch = pack(*draw(torch.Generator().manual_seed(count), count, longest))
        filled = filling.fill(batch)
        for tokens, layout, before in (
            (filled.source_tokens, filled.source_layout, batch.source_layout),
            (filled.target_inputs, filled.target_layout, batch.target_layout),
        ):
            assert tokens.shape == layout.shape
            assert tokens.shape[1] % row_step == 0
            assert tokens.shape[1] == filling.fill_row(before.shape[1])
            lengths = layout.offsets.diff().tolist()
            assert len(lengths) % filling.sentence_step == 0
            assert lengths[:count] == before.offsets.diff().tolist()
            padding = lengths[count : count + filling.num_fillers]
            assert all(1 <= length <= longest for length in padding)
            assert not any(lengths[count + filling.num_fillers :])
            assert sum(lengths) == tokens.shape[1]
            assert (tokens[0, before.shape[1] :] == PAD).all()
        assert len(filled.target_outputs) == filled.target_inputs.shape[1]
        shapes.add((filled.source_tokens.shape, filled.target_inputs.shape))
    if row_step == 64 and longest == 9:
        assert len(shapes) < 9


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [False, True])
def test_loss_and_gradients_are_those_of_the_batch_itself(label_smoothing, bias):
    torch.manual_seed(3)
    section = Model(
        num_encoder_layers=2,
        num_decoder_layers=2,
        d_model=16,
        d_ff=32,
        num_heads=2,
        dropout=0.0,
        output_bias=bias,
    )
    model = EncoderDecoder(section, VOCAB_SIZE, VOCAB_SIZE).double()
    if bias:
        torch.nn.init.normal_(model.output_bias)
    batch = pack(*draw(torch.Generator().manual_seed(4), 13, 9))
    found = []
    for each in (batch, Filling(32, max_length=9).fill(batch)):
        model.zero_grad(set_to_none=True)
        sums = measure_translation(model, each, label_smoothing=label_smoothing)
        sums.loss.backward()
        gradients = {name: weight.grad for name, weight in model.named_parameters()}
        found.append((sums.loss.detach(), sums.negative_log_likelihood, gradients))
    torch.testing.assert_close(found[1][:2], found[0][:2], rtol=1e-12, atol=0.0)
    for name, expected in found[0][2].items():
        torch.testing.assert_close(found[1][2][name], expected, rtol=0.0, atol=1e-10, msg=name)
