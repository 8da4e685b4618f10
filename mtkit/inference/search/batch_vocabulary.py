"""The target tokens that a batch of sentences may need, and which of them each sentence may."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

_MAX_SHARE = 0.75
"""Of the vocabulary; with more, the whole of it is projected to."""
_STEPS_PER_OCTAVE = 4
"""Sizes of a part: so few that oneDNN's kernels, one for each size, stay few."""


@dataclass(frozen=True)
class BatchVocabulary:
    """Tokens in rising order, the special ones first; a search counts tokens by their index here.

    All sentences of a batch project to the same tokens, and each one's own list decides what may
    come next, so that its neighbours don't matter.

    Attributes:
        tokens: The tokens' ids.
        bias: 0 for a token in a sentence's list, else minus infinity: added to logits.
        is_part: Whether some tokens are left out.
    """

    tokens: Int[Tensor, " listed"]
    bias: Float[Tensor, "batch 1 listed"]
    is_part: bool

    @classmethod
    def of(cls, is_listed: NDArray[np.bool_], device: torch.device) -> "BatchVocabulary":
        """Returns the vocabulary of a batch.

        Args:
            is_listed: Which tokens are in each sentence's list, [sentence, token].
            device: Where the search runs.
        """
        vocab_size = is_listed.shape[1]
        is_needed: NDArray[np.bool_] = np.any(is_listed, axis=0)
        size = _round_up(int(is_needed.sum()))
        is_part = size <= _MAX_SHARE * vocab_size
        if is_part:
            unlisted = np.flatnonzero(~is_needed)
            is_needed[unlisted[: size - int(is_needed.sum())]] = True
            tokens = np.flatnonzero(is_needed)
        else:
            tokens = np.arange(vocab_size)
        allowed: Bool[Tensor, "batch listed"] = torch.from_numpy(is_listed[:, tokens])
        bias = torch.zeros(allowed.shape).masked_fill_(~allowed, -torch.inf)[:, None]
        return cls(torch.from_numpy(tokens).to(device), bias.to(device), is_part)

    def select(self, sentences: Sequence[int]) -> "BatchVocabulary":
        """Returns the vocabulary with the lists of these sentences, in this order."""
        if list(sentences) == list(range(len(self.bias))):
            return self
        order = torch.tensor(list(sentences), dtype=torch.int64, device=self.bias.device)
        return replace(self, bias=self.bias.index_select(0, order))

    def find(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Returns the indices of tokens that are all here."""
        wanted = torch.tensor(list(tokens), dtype=torch.int64, device=self.tokens.device)
        return tuple(torch.searchsorted(self.tokens, wanted).tolist())

    def restore(self, indices: Sequence[int]) -> tuple[int, ...]:
        """Returns the tokens at these indices."""
        chosen = torch.tensor(list(indices), dtype=torch.int64, device=self.tokens.device)
        return tuple(self.tokens[chosen].tolist())


def _round_up(size: int) -> int:
    """Returns a number of few different ones, at most a quarter greater."""
    step = max(1, (1 << size.bit_length() - 1) // _STEPS_PER_OCTAVE)
    return -(-size // step) * step
