"""Outputs that have come to their end, and the batch without them."""

import itertools
from collections.abc import Sequence

from mtkit.inference.hypothesis import Hypothesis
from mtkit.inference.search.penalties import length_penalty
from mtkit.recipe.inference import LengthPenalty
from mtkit.text.token_ids import EOS


def end_output(
    tokens: Sequence[int],
    cumulative_log_probabilities: Sequence[float],
    penalty: LengthPenalty,
    adjustment: float = 0.0,
) -> Hypothesis:
    """Returns an output that has come to its end.

    Args:
        tokens: The output.
        cumulative_log_probabilities: Its log-probability up to each token.
        penalty: What the score divides by.
        adjustment: What is added to the score.
    """
    divisor = length_penalty(penalty.kind, penalty.alpha, len(tokens))
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


def compact(is_alive: Sequence[bool]) -> list[int]:
    """Returns the rows that are alive, those from the end in the gaps of the others.

    So as few as can be have to move.
    """
    num_kept = sum(is_alive)
    from_the_end = (row for row in range(num_kept, len(is_alive)) if is_alive[row])
    return [row if is_alive[row] else next(from_the_end) for row in range(num_kept)]
