"""Outputs that have come to their end, and the batch that goes on without them."""

import itertools
from collections.abc import Sequence

from mtkit.inference.hypothesis import Hypothesis
from mtkit.inference.search.penalties import length_penalty
from mtkit.recipe.inference import LengthPenalty
from mtkit.text.token_ids import EOS


def end_output(
    tokens: Sequence[int], course: Sequence[float], penalty: LengthPenalty, adjustment: float = 0.0
) -> Hypothesis:
    """Returns an output that has come to its end.

    Args:
        tokens: The output.
        course: Its log-probability up to each token.
        penalty: What the score divides by.
        adjustment: What is added to the score.
    """
    divisor = length_penalty(penalty.kind, penalty.alpha, len(tokens))
    return Hypothesis(
        tuple(tokens),
        course[-1],
        course[-1] / divisor + adjustment,
        is_finished=tokens[-1] == EOS,
        token_log_probabilities=tuple(
            after - before for before, after in itertools.pairwise((0.0, *course))
        ),
    )


def close_ranks(goes_on: Sequence[bool]) -> list[int]:
    """Returns the places that go on, those from the end in the gaps of those that don't.

    So as few as can be have to move.
    """
    num_kept = sum(goes_on)
    from_the_end = (place for place in range(num_kept, len(goes_on)) if goes_on[place])
    return [place if goes_on[place] else next(from_the_end) for place in range(num_kept)]
