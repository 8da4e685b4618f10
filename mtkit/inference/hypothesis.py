"""One output of a search."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """An output with its probability.

    Attributes:
        tokens: Target tokens, `</s>` included where the output ends in one.
        log_probability: Sum of the tokens' natural log-probabilities.
        score: `log_probability` divided by the length penalty, less the coverage penalty; what
            outputs are compared by.
        is_finished: The last token is `</s>`; otherwise the length limit cut the output.
        token_log_probabilities: Each token's own; none where the engine doesn't tell.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    is_finished: bool
    token_log_probabilities: tuple[float, ...] = ()

    @property
    def reached_limit(self) -> bool:
        """Whether the length limit cut the output before `</s>`."""
        return not self.is_finished
