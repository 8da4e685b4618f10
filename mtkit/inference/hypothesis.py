"""One output of a search."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ScoredPiece:
    """A token of a translation.

    Attributes:
        piece: The token as the tokenizer writes it.
        log_probability: Its natural log-probability, given the source and what comes before.
    """

    piece: str
    log_probability: float


@dataclass(frozen=True)
class Hypothesis:
    """An output with its probability: of a part as a search finds it, of a line once joined.

    Attributes:
        token_ids: Target tokens, `</s>` included where the output ends in one.
        log_probability: Sum of the tokens' natural log-probabilities.
        score: What hypotheses are ranked by: the log-probability divided by the length penalty, and
            what other penalties there are; the sum over the parts of a split line.
        is_finished: The last token is `</s>`; otherwise the length limit cut the output.
        token_log_probabilities: Each token's own; none where the engine doesn't tell.
        attention: Share of its attention that each token paid to each source token, [tgt_len,
            src_len]; None where the engine doesn't tell.
        text: The translation; empty before it is decoded.
        pieces: Each token as the tokenizer writes it; none before it is decoded.
    """

    token_ids: tuple[int, ...]
    log_probability: float
    score: float
    is_finished: bool
    token_log_probabilities: tuple[float, ...] = ()
    attention: Sequence[Sequence[float]] | None = None
    text: str = ""
    pieces: tuple[str, ...] = ()

    @property
    def tokens(self) -> tuple[ScoredPiece, ...]:
        """Its tokens, `</s>` included; none where the engine doesn't tell."""
        return tuple(map(ScoredPiece, self.pieces, self.token_log_probabilities))

    @property
    def reached_limit(self) -> bool:
        """Whether the length limit cut the output before `</s>`."""
        return not self.is_finished

    def as_json(self) -> dict[str, Any]:
        """Returns it as an object of a JSON line."""
        return {
            "text": self.text,
            "score": self.score,
            "log_probability": self.log_probability,
            "tokens": [
                {"piece": token.piece, "log_probability": token.log_probability}
                for token in self.tokens
            ],
            "reached_limit": self.reached_limit,
        }
