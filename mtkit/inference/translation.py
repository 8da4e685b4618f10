"""What is asked of a translator, and what it answers."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Request:
    """A line to translate.

    Attributes:
        text: The line, without its newline.
        prefix: Target text that its translation begins with.
    """

    text: str
    prefix: str = ""


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
class Candidate:
    """One translation of a line.

    Attributes:
        text: The translation.
        score: What translations of a line are ranked by: the log-probability divided by the length
            penalty, and what other penalties there are; the sum over the parts of a split line.
        log_probability: The natural log-probability of all its tokens.
        tokens: Its tokens, `</s>` included; none where the engine doesn't tell.
        reached_limit: It was cut by the limit of its length.
    """

    text: str
    score: float
    log_probability: float
    tokens: tuple[ScoredPiece, ...] = ()
    reached_limit: bool = False

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


@dataclass(frozen=True)
class Translation:
    """A line's translation.

    Attributes:
        candidates: The n best, best first; at least one.
        was_split: The line was too long for the model, and was translated in parts.
    """

    candidates: tuple[Candidate, ...]
    was_split: bool = False

    @property
    def text(self) -> str:
        """The best candidate's text."""
        return self.candidates[0].text

    @property
    def reached_limit(self) -> bool:
        """Whether the best candidate was cut by the limit of its length."""
        return self.candidates[0].reached_limit

    def as_json(self) -> dict[str, Any]:
        """Returns it as the object of a JSON line."""
        return {
            **self.candidates[0].as_json(),
            "was_split": self.was_split,
            "n_best": [candidate.as_json() for candidate in self.candidates],
        }


BLANK = Translation((Candidate("", 0.0, 0.0),))
"""What a blank line becomes."""
