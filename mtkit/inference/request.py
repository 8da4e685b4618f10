"""Requests to a translator, and what is said of their lines."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from mtkit.errors import MtkitError
from mtkit.recipe.inference import Inference
from mtkit.text.glossary import Term
from mtkit.text.words import Span


@dataclass(frozen=True)
class Request:
    """A line to translate, or one to score.

    Attributes:
        text: The line, without its newline.
        prefix: Target text that the translation begins with; when scoring, the whole translation.
        settings: Search settings; the translator's if not given. `engine`, `precision`,
            `processes`, `batch_tokens`, `fusion` and `glossary` are always the translator's.
        line: Line number, used in messages and, with the seed, for sampling; by default the
            position among the requests of one call.
        source_language: A code of the line's language; the translator's default if not given.
        target_language: A code of the language to translate into; the same.
        extra: Other data that came with the line, such as other keys of a JSON object; passed on.
        glossary: Its own terms, which take the place of those of `inference.glossary`.
        required: What every output must contain; `inference.protect` sets it.
        sentence: Number of this sentence in its line, the first being 0, where the line was split
            before: it isn't split again (`inference.paragraphs`).
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


@dataclass(frozen=True)
class RequiredPhrase:
    """Text of a line that an output must contain as it stands there.

    Attributes:
        span: Where it begins and ends in the line, in characters.
        tokens: The target tokens that spell it.
    """

    span: Span
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class LineWarning:
    """A warning about a line's translation.

    Attributes:
        kind: The kind that it is counted under, such as `too long for the model`.
        text: The warning, which names the line.
        line: The line's number, the first being 1.
    """

    kind: str
    text: str
    line: int


class LineError(MtkitError):
    """An error in one line of input; the lines before it can still be translated.

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
