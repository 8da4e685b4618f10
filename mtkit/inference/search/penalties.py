"""Scores of outputs: length penalty and coverage."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from mtkit.inference.translation import Hypothesis
from mtkit.recipe.inference import LengthPenalty
from mtkit.text.token_ids import EOS

MIN_COVERAGE = 2.0**-126
"""Smaller attention, below fp32's smallest normal number, counts as this. Engines may or may not
round it to 0, whose logarithm isn't finite."""


def length_penalty(kind: Literal["gnmt", "power"], alpha: float, length: int) -> float:
    """Returns the divisor of an output's log-probability; `length` counts `</s>`.

    `gnmt` is ((5 + length) / 6)^alpha (arXiv 1609.08144, equation 14); `power`, as in CTranslate2
    and transformers, is length^alpha. With alpha >= 0 it never falls as the output grows.
    """
    match kind:
        case "gnmt":
            return float(((5 + length) / 6) ** alpha)
        case "power":
            return float(length**alpha)


def leave_out_beginning(hypothesis: Hypothesis, num_tokens: int) -> Hypothesis:
    """Returns an output without its first tokens, which were certain; its score stays."""
    if not num_tokens:
        return hypothesis
    of_tokens = hypothesis.token_log_probabilities[num_tokens:]
    weights = hypothesis.alignment_weights
    return replace(
        hypothesis,
        token_ids=hypothesis.token_ids[num_tokens:],
        log_probability=sum(of_tokens) if of_tokens else hypothesis.log_probability,
        token_log_probabilities=of_tokens,
        alignment_weights=None if weights is None else weights[num_tokens:],
    )


def end_output(
    tokens: Sequence[int],
    cumulative_log_probabilities: Sequence[float],
    penalty: LengthPenalty,
    adjustment: float = 0.0,
    *,
    num_before: int = 0,
) -> Hypothesis:
    """Returns an ended output.

    Args:
        tokens: The output.
        cumulative_log_probabilities: Its log-probability up to each token.
        penalty: The divisor of the score.
        adjustment: Added to the score.
        num_before: Tokens before the output that count in its length, such as its language.
    """
    divisor = length_penalty(penalty.kind, penalty.alpha, num_before + len(tokens))
    return Hypothesis(
        tuple(tokens),
        cumulative_log_probabilities[-1],
        cumulative_log_probabilities[-1] / divisor + adjustment,
        is_finished=tokens[-1] == EOS,
        token_log_probabilities=tuple(
            after - before
            for before, after in itertools.pairwise((0.0, *cumulative_log_probabilities))
        ),
    )
