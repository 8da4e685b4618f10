"""How outputs of different lengths are compared, and what source tokens left out cost at most."""

from typing import Literal

MIN_COVERAGE = 2.0**-126
"""Attention below fp32's smallest normal number counts as that. Engines round such weights to 0 or
not, and the logarithm of 0 isn't finite."""


def length_penalty(kind: Literal["gnmt", "power"], alpha: float, length: int) -> float:
    """Returns what the log-probability of an output of `length` tokens is divided by.

    Args:
        kind: `gnmt` is ((5 + length) / 6)^alpha (arXiv 1609.08144, equation 14); `power`, which
            CTranslate2 and transformers have, is length^alpha.
        alpha: Strength; 0 or more, so that the penalty never falls as the output grows.
        length: Number of tokens, `</s>` counted; at least 1.
    """
    match kind:
        case "gnmt":
            return float(((5 + length) / 6) ** alpha)
        case "power":
            return float(length**alpha)
