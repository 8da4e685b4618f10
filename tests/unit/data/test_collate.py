"""Padded tensors, by hand."""

import numpy as np
import torch

from mtkit.data.collate import collate
from mtkit.data.tokenizer import BOS, EOS, PAD


def test_two_pairs_written_out() -> None:
    sources = [np.array([7, 8, EOS]), np.array([9, EOS])]
    targets = [np.array([5, EOS]), np.array([6, 4, 5, EOS])]
    batch = collate(sources, targets)
    assert batch.source_tokens.tolist() == [[7, 8, EOS], [9, EOS, PAD]]
    assert batch.source_is_token.tolist() == [[True, True, True], [True, True, False]]
    assert batch.target_inputs.tolist() == [[BOS, 5, PAD, PAD], [BOS, 6, 4, 5]]
    assert batch.target_outputs.tolist() == [[5, EOS, PAD, PAD], [6, 4, 5, EOS]]
    assert batch.target_is_token.tolist() == [[True, True, False, False], [True] * 4]
    assert batch.source_tokens.dtype == torch.int64
    assert batch.to(torch.device("cpu")) is batch
