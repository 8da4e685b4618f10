"""Sentences of unequal length to padded tensors."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mtkit.data.batches.ragged import Ragged
from mtkit.data.tokenizer import BOS, PAD


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as tensors, padded at the end.

    Attributes:
        source_tokens: int64 [batch, src_len], closed by `</s>`.
        source_is_token: bool [batch, src_len], False at padding.
        target_inputs: int64 [batch, tgt_len]: `<s>` and the target.
        target_outputs: int64 [batch, tgt_len]: the target and `</s>`, what each input predicts.
        target_is_token: bool [batch, tgt_len], False at padding.
    """

    source_tokens: Tensor
    source_is_token: Tensor
    target_inputs: Tensor
    target_outputs: Tensor
    target_is_token: Tensor

    def to(self, device: torch.device) -> "Batch":
        """Returns the batch on a device; the copy may still be under way on a GPU's stream."""
        if device.type == "cpu":
            return self

        def send(tensor: Tensor) -> Tensor:
            return tensor.pin_memory().to(device, non_blocking=True)

        return Batch(
            source_tokens=send(self.source_tokens),
            source_is_token=send(self.source_is_token),
            target_inputs=send(self.target_inputs),
            target_outputs=send(self.target_outputs),
            target_is_token=send(self.target_is_token),
        )


def collate(source: Ragged, target: Ragged) -> Batch:
    """Returns sentence pairs, each side closed by `</s>`, as one batch."""
    source_tokens, source_is_token = pad(source)
    target_outputs, target_is_token = pad(target)
    target_inputs = np.full_like(target_outputs, PAD)
    target_inputs[:, 0] = BOS
    target_inputs[:, 1:] = np.where(target_is_token[:, 1:], target_outputs[:, :-1], PAD)
    return Batch(
        torch.from_numpy(source_tokens),
        torch.from_numpy(source_is_token),
        torch.from_numpy(target_inputs),
        torch.from_numpy(target_outputs),
        torch.from_numpy(target_is_token),
    )


def pad(sentences: Ragged) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Returns [batch, longest] tokens and which of them are real."""
    is_token = np.arange(sentences.lengths.max()) < sentences.lengths[:, None]
    tokens = np.full(is_token.shape, PAD, dtype=np.int64)
    tokens[is_token] = sentences.tokens
    return tokens, is_token
