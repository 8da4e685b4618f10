"""Requests to a translator, and warnings and errors about their lines."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from mtkit.errors import MtkitError
from mtkit.recipe.inference import Inference
from mtkit.text.glossary import Term
from mtkit.text.words import Span


@dataclass(frozen=True)
class Request:
    """A line to translate, or one to score.

    Attributes:
        text: The line, without its newline.
        prefix: Target text that the translation begins with; for scoring, the whole translation.
        settings: Search settings; the translator's if None. `engine`, `precision`, `processes`,
            `batch_tokens`, `fusion` and `glossary` are always the translator's.
        line: Line number for messages and, with the seed, for sampling; by default the position
            among the requests of one call.
        source_language: A code of the line's language; the translator's default if empty.
        target_language: A code of the target language; the same.
        extra: Other data of the line, such as other keys of a JSON object; passed on.
        glossary: Terms that replace those of `inference.glossary`.
        required: What every output must contain; `inference.protect` sets it.
        sentence: Number of this sentence in a line that is already split, from 0
            (`inference.paragraphs`).
        is_program_string: Whether `inference.protect_strings` applies to it.
    """

    text: str
    prefix: str = ""
    settings: Inference | None = None
    line: int | None = None
    source_language: str = ""
    target_language: str = ""
    extra: Mapping[str, Any] | None = None
    glossary: tuple[Term, ...] = ()
    required: "tuple[RequiredPhrase, ...]" = ()
    sentence: int | None = None
    is_program_string: bool = False


@dataclass(frozen=True)
class RequiredPhrase:
    """Text of a line that an output must contain unchanged.

    Attributes:
        span: Start and end in the line, in characters.
        tokens: The target tokens that spell it.
    """

    span: Span
    tokens: tuple[int, ...]


BAD_ANSWER: Final = "bad answer"
"""Kind of the warning, and name of the flag, of a line that a large language model didn't
translate."""


@dataclass(frozen=True)
class LineWarning:
    """A warning about a line's translation.

    Attributes:
        kind: The kind that it is counted under, such as `too long for the model`.
        fault: What is wrong.
        line: The line's number, from 1.
        place: Named instead of the line, such as `a.po:12`.
    """

    kind: str
    fault: str
    line: int
    place: str = ""

    @property
    def text(self) -> str:
        """The warning with its place."""
        return f"{self.place or f'input line {self.line}'}: {self.fault}"


class LineError(MtkitError):
    """An error in one line of input, from 1; the lines before it can still be translated."""

    def __init__(self, line: int, fault: str, hint: str = "") -> None:
        super().__init__(f"input line {line}: {fault}", hint)
        self.line = line
        self.fault = fault

    def __reduce__(self) -> tuple[type[Self], tuple[int, str, str]]:
        # Pickle calls the class with the message alone, but this one takes other arguments.
        return type(self), (self.line, self.fault, self.hint)


class NotFiniteError(LineError):
    """A model's probabilities are NaN, whatever the line."""
