"""Packed sentences come to the same states, loss and gradients as padded ones."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.data.batches.collate import collate, pack
from mtkit.data.batches.ragged import Ragged
from mtkit.data.tokenizer import EOS
from mtkit.model import EncoderDecoder, can_pack
from mtkit.recipe.model import Model
from mtkit.training.objective import measure_translation

VOCAB_SIZE = 23
KINDS = {
    "post": {},
    "pre": {"norm": "pre", "activation": "swiglu", "positions": "learned", "max_positions": 40},
    "restricted": {"attention_window": 2},
    "wide values": {"d_key": 4, "d_value": 10},
}
sentence = st.lists(st.integers(4, VOCAB_SIZE - 1), max_size=9)
pairs = st.lists(st.tuples(sentence, sentence), min_size=1, max_size=5)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(pairs=pairs)
def test_packed_is_padded(kind: str, pairs: list[tuple[list[int], list[int]]]) -> None:
    torch.manual_seed(3)
    sizes = {"num_encoder_layers": 2, "num_decoder_layers": 2, "d_model": 16, "d_ff": 24}
    section = Model(**{**sizes, "num_heads": 2, "dropout": 0.0, **KINDS[kind]})
    model = EncoderDecoder(section, VOCAB_SIZE, VOCAB_SIZE).double()
    sides = [Ragged.of([[*tokens, EOS] for tokens in side]) for side in zip(*pairs, strict=True)]
    outcomes = []
    for batch in (collate(*sides), pack(*sides)):
        model.zero_grad(set_to_none=True)
        sums = measure_translation(model, batch, label_smoothing=0.1)
        sums.loss.backward()
        gradients = {name: weight.grad for name, weight in model.named_parameters()}
        outcomes.append((sums, gradients))
    (padded, padded_gradients), (packed, packed_gradients) = outcomes
    # fp64: only the order of sums differs.
    torch.testing.assert_close(packed.loss, padded.loss, rtol=1e-12, atol=0.0)
    torch.testing.assert_close(
        packed.negative_log_likelihood, padded.negative_log_likelihood, rtol=1e-12, atol=0.0
    )
    for name, gradient in padded_gradients.items():
        torch.testing.assert_close(packed_gradients[name], gradient, rtol=0.0, atol=1e-11)


def test_a_row_written_out() -> None:
    source = Ragged.of([[7, 8, EOS], [9, EOS]])
    target = Ragged.of([[5, EOS], [6, 4, 5, EOS]])
    batch = pack(source, target)
    assert batch.source_tokens.tolist() == [[7, 8, EOS, 9, EOS]]
    assert batch.source.offsets.tolist() == [0, 3, 5]
    assert batch.source.offsets.dtype == torch.int32
    assert batch.source.places.tolist() == [0, 1, 2, 0, 1]
    assert batch.source.longest == 3
    # 2 is <s>.
    assert batch.target_inputs.tolist() == [[2, 5, 2, 6, 4, 5]]
    assert batch.target_outputs.tolist() == [5, EOS, 6, 4, 5, EOS]
    assert batch.target.offsets.tolist() == [0, 2, 6]
    assert batch.target.longest == 4
    assert source.tokens.tolist() == [7, 8, EOS, 9, EOS]


def test_a_cpu_has_no_kernel_for_it() -> None:
    assert not can_pack(torch.device("cpu"), torch.bfloat16, d_key=64, d_value=64)
    # What a GPU's kernel can't do either, whatever torch is installed.
    gpu = torch.device("cuda")
    assert not can_pack(gpu, torch.float32, d_key=64, d_value=64)
    assert not can_pack(gpu, torch.bfloat16, d_key=64, d_value=32)
    assert not can_pack(gpu, torch.bfloat16, d_key=20, d_value=20)
    assert not can_pack(gpu, torch.bfloat16, d_key=512, d_value=512)


def test_packing_leaves_what_it_was_given() -> None:
    target = Ragged(np.array([5, EOS]), np.array([2]))
    pack(target, target)
    assert target.tokens.tolist() == [5, EOS]
