"""What a target's alignment is read from: inputs of the decoder, and rows of its attention."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mtkit.text.token_ids import BOS, EOS


def list_aligned_inputs(target: Sequence[int], max_tokens: int | None) -> list[int]:
    """Returns what a decoder reads of a target: `<s>` and each token but the last `</s>`.

    Args:
        target: Its tokens, as a search finds them.
        max_tokens: The decoder's positions; None without an end.
    """
    tokens = target[:-1] if target and target[-1] == EOS else target
    return [BOS, *tokens][:max_tokens]


def fill_rows(weights: NDArray[np.float32], length: int) -> NDArray[np.float32]:
    """Returns rows of attention and, for tokens that have none, rows of zeros: `length` in all."""
    rows = np.zeros((length, weights.shape[1]), np.float32)
    rows[: len(weights)] = weights
    return rows
