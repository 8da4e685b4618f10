"""Sentences packed or in grids come to the same states, loss and gradients as padded ones."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.data.batches.collate import lay_out, pack
from mtkit.data.batches.ragged import Ragged
from mtkit.network import EncoderDecoder
from mtkit.recipe.model import Model
from mtkit.text.token_ids import EOS
from mtkit.training.loss import measure_translation

from ..padded import pad_pairs

VOCAB_SIZE = 23
KINDS = {
    "post": {},
    "pre": {"norm": "pre", "activation": "swiglu", "positions": "learned", "max_positions": 40},
    "restricted": {"attention_window": 2},
    "rotary": {"positions": "rotary", "norm": "pre"},
    "wide values": {"d_key": 4, "d_value": 10},
    "as elsewhere": {
        "sinusoids": "tensor2tensor",
        "first_position": 2,
        "scale_embeddings": False,
        "embedding_norm": True,
        "output_bias": True,
        "activation": "silu",
    },
}
sentence = st.lists(st.integers(4, VOCAB_SIZE - 1), max_size=9)
pairs = st.lists(st.tuples(sentence, sentence), min_size=1, max_size=5)
cuts = st.sets(st.integers(1, 4))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=6, deadline=None)
@given(pairs=pairs, cuts=cuts, row_step=st.sampled_from([1, 8]))
def test_packed_and_in_grids_is_padded(
    kind: str, pairs: list[tuple[list[int], list[int]]], cuts: set[int], row_step: int
) -> None:
    torch.manual_seed(3)
    sizes = {"num_encoder_layers": 2, "num_decoder_layers": 2, "d_model": 16, "d_ff": 24}
    section = Model(**{**sizes, "num_heads": 2, "dropout": 0.0, **KINDS[kind]})
    model = EncoderDecoder(section, VOCAB_SIZE, VOCAB_SIZE).double()
    sides = [Ragged.of([[*tokens, EOS] for tokens in side]) for side in zip(*pairs, strict=True)]
    bounds = [0, *sorted(cut for cut in cuts if cut < len(pairs)), len(pairs)]
    grid_sizes = np.diff(bounds).tolist()
    outcomes = []
    for batch in (
        pad_pairs(*sides),
        pack(*sides),
        # A row without sentences, as a batch of few shapes may have.
        pack(*sides, [*grid_sizes, 0]),
        pack(*sides, grid_sizes).fill(max_length=17),
        lay_out(*sides, grid_sizes, row_step=row_step),
    ):
        model.zero_grad(set_to_none=True)
        sums = measure_translation(model, batch, label_smoothing=0.1)
        sums.loss.backward()
        gradients = {name: weight.grad for name, weight in model.named_parameters()}
        with torch.no_grad():
            measured = measure_translation(model.eval(), batch, label_smoothing=0.1)
        model.train()
        torch.testing.assert_close(measured.loss, sums.loss, rtol=1e-12, atol=0.0)
        outcomes.append((sums, gradients))
    (padded, padded_gradients), *others = outcomes
    # fp64: only the order of sums differs.
    for found, gradients in others:
        torch.testing.assert_close(found.loss, padded.loss, rtol=1e-12, atol=0.0)
        torch.testing.assert_close(
            found.negative_log_likelihood, padded.negative_log_likelihood, rtol=1e-12, atol=0.0
        )
        for name, gradient in padded_gradients.items():
            torch.testing.assert_close(gradients[name], gradient, rtol=0.0, atol=1e-11)


def test_a_row_written_out() -> None:
    source = Ragged.of([[7, 8, EOS], [9, EOS]])
    target = Ragged.of([[5, EOS], [6, 4, 5, EOS]])
    batch = pack(source, target)
    # Rows are multiples of eight tokens wide; 0 is padding.
    assert batch.source_tokens.tolist() == [[7, 8, EOS, 9, EOS, 0, 0, 0]]
    assert batch.source_layout.sentences.tolist() == [[0, 0, 0, 1, 1, -1, -1, -1]]
    assert batch.source_layout.positions.tolist() == [[0, 1, 2, 0, 1, 0, 0, 0]]
    assert batch.source_layout.max_length == 3
    # 2 is <s>.
    assert batch.target_inputs.tolist() == [[2, 5, 2, 6, 4, 5, 0, 0]]
    assert batch.target_outputs.tolist() == [5, EOS, 6, 4, 5, EOS]
    assert batch.target_layout.max_length == 4
    assert source.tokens.tolist() == [7, 8, EOS, 9, EOS]


def test_rows_written_out() -> None:
    source = Ragged.of([[7, 8, EOS], [9, EOS], [EOS]])
    target = Ragged.of([[5, EOS], [6, 4, 5, EOS], [7, EOS]])
    batch = pack(source, target, [1, 2])
    assert batch.source_tokens.tolist() == [[7, 8, EOS, *[0] * 5], [9, EOS, EOS, *[0] * 5]]
    layout = batch.target_layout
    assert layout.sentences.tolist() == [[0, 0, *[-1] * 6], [1, 1, 1, 1, 2, 2, -1, -1]]
    assert layout.positions.tolist() == [[0, 1, *[0] * 6], [0, 1, 2, 3, 0, 1, 0, 0]]
    assert layout.token_indices.tolist() == [0, 1, 8, 9, 10, 11, 12, 13]
    assert layout.starts.tolist() == [0, 8, 12]
    filled = batch.fill(max_length=30)
    assert filled.target_outputs.tolist() == [5, EOS, *[0] * 6, 6, 4, 5, EOS, 7, EOS, 0, 0]
    assert filled.target_layout.token_indices.tolist() == list(range(16))
    assert filled.target_layout.max_length == filled.source_layout.max_length == 30


def test_grids_written_out() -> None:
    source = Ragged.of([[7, 8, EOS], [9, EOS], [EOS]])
    target = Ragged.of([[5, EOS], [6, 4, 5, EOS], [7, EOS]])
    batch = lay_out(source, target, [2, 1], row_step=5)
    # A grid of two by three and one of one by one, filled up to ten; 0 is padding.
    assert batch.source_tokens.tolist() == [[7, 8, EOS, 9, EOS, 0, EOS, 0, 0, 0]]
    assert batch.source_layout.shapes == ((2, 3), (1, 1))
    assert batch.source_layout.is_token.tolist() == [[True] * 5 + [False, True] + [False] * 3]
    assert batch.source_layout.positions.tolist() == [[0, 1, 2, 0, 1, 0, 0, 0, 0, 0]]
    assert batch.source_layout.max_length == 3
    # 2 is <s>.
    assert batch.target_inputs.tolist() == [[2, 5, 0, 0, 2, 6, 4, 5, 2, 7]]
    assert batch.target_layout.shapes == ((2, 4), (1, 2))
    assert batch.target_layout.token_indices.tolist() == [0, 1, 4, 5, 6, 7, 8, 9]
    assert batch.target_outputs.tolist() == [5, EOS, 6, 4, 5, EOS, 7, EOS]


def test_packing_leaves_what_it_was_given() -> None:
    target = Ragged(np.array([5, EOS]), np.array([2]))
    pack(target, target)
    assert target.tokens.tolist() == [5, EOS]
