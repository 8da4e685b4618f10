"""What is asked of a translator, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mtkit.inference.hypothesis import Hypothesis
from mtkit.inference.line_warnings import LineWarning
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
