"""A penalty on source tokens that an output leaves out, as CTranslate2 has it and as it should be.

Without torch: `coverage_penalty` in mtkit/inference/search/coverage.py does the same on tensors.
"""

import math
from collections.abc import Sequence

from mtkit.inference.search.penalties import MIN_COVERAGE

Attention = Sequence[Sequence[float]]
"""What each of an output's tokens paid to each source token, [tgt_len][src_len]."""


def rate_coverage(attention: Attention, beta: float) -> float:
    """Returns what an output's attention adds to its score: at most 0."""
    return beta * sum(math.log(max(share, MIN_COVERAGE)) for share in _find_shares(attention))


def find_own_penalty(attention: Attention, beta: float) -> float:
    """Returns what CTranslate2 has added to an output's score for its attention."""
    return beta * sum(math.log(share) for share in _find_shares(attention) if share > 0.0)


def _find_shares(attention: Attention) -> list[float]:
    """Returns how much attention each source token got from the whole output, 1 at most."""
    return [min(sum(of_token), 1.0) for of_token in zip(*attention, strict=True)]
