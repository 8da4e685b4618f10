"""Sentence pairs as padded tensors, the plainest of layouts, which only tests train on."""

import torch

from mtkit.data.batches.collate import TranslationBatch
from mtkit.data.batches.ragged import Ragged
from mtkit.inference.engines.torch_engine import pad
from mtkit.text.token_ids import BOS


def pad_pairs(source: Ragged, target: Ragged) -> TranslationBatch:
    """Returns sentence pairs, each side closed by `</s>`, as one padded batch."""
    target_outputs, target_layout = pad(target.to_lists())
    target_inputs = target_outputs.roll(1, dims=1)
    target_inputs[:, 0] = BOS
    return TranslationBatch(
        *pad(source.to_lists()), target_inputs, target_layout, torch.from_numpy(target.tokens)
    )
