"""What is asked of a translator, and what it answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from mtkit.errors import MtkitError
from mtkit.recipe.inference import Inference


@dataclass(frozen=True)
class Request:
    """A line to translate, or one to score.

    Attributes:
        text: The line, without its newline.
        prefix: Target text that its translation begins with; all of it where it is scored.
        settings: How to search for it; as the translator does where they aren't given. What the
            network runs on stays the translator's: `engine`, `precision`, `processes` and
            `batch_tokens`.
        line: Its number, which messages name and which, with the seed, decides what is sampled; its
            position among those asked for together where it isn't given.
        extra: What else came with the line, such as other keys of a JSON object; never looked at.
    """

    text: str
    prefix: str = ""
    settings: Inference | None = None
    line: int | None = None
    extra: Mapping[str, Any] | None = None


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


@dataclass(frozen=True)
class LineWarning:
    """Something that a reader should know of a line's translation.

    Attributes:
        kind: What warnings like it are counted under, such as `too long for the model`.
        text: The warning, which names the line.
        line: The line's number, the first being 1.
    """

    kind: str
    text: str
    line: int


@dataclass(frozen=True)
class Translation:
    """A line's translation.

    Attributes:
        candidates: The n best, best first; at least one.
        was_split: The line was too long for the model, and was translated in parts.
        warnings: What a reader should know of it: it was split, or the best was cut.
    """

    candidates: tuple[Hypothesis, ...]
    was_split: bool = False
    warnings: tuple[LineWarning, ...] = ()

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


BLANK = Translation((Hypothesis((), 0.0, 0.0, is_finished=True),))
"""The translation of a blank line."""


class LineError(MtkitError):
    """A fault of one line of input; the lines before it can still be answered.

    Attributes:
        line: Its number, the first being 1.
    """

    def __init__(self, line: int, fault: str, hint: str = "") -> None:
        super().__init__(f"input line {line}: {fault}", hint)
        self.line = line
        self._fault = fault

    def __reduce__(self) -> tuple[type[Self], tuple[int, str, str]]:
        # An exception is made again from its message alone, which isn't what this one takes.
        return type(self), (self.line, self._fault, self.hint)
