"""Declarations of what a change of a key invalidates."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, get_args

from pydantic import BaseModel


class Invalidates(Flag):
    """Parts of a run that are outdated once a key has changed.

    A key without a declaration has that of the section around it.
    """

    NOTHING = 0
    DATA = auto()
    """Prepared data: `mtkit prepare` checks them again, and training rejects them until then."""
    HELD_OUT = auto()
    """Held-out sentences that `mtkit prepare` removes: it does so again; training may continue."""
    RUN = auto()
    """Checkpoints: with another value, training is a different run."""
    UPDATES = auto()
    """Results of the next updates: a training may resume with another value, and says so."""
    SCHEDULE_END = auto()
    """The same, where the learning rate falls to an end."""
    SCORES = auto()
    """Development scores: checkpoints that were scored differently can't be compared."""
    TRANSLATIONS = auto()
    """Translations of test sets."""
    RESULTS = auto()
    """Averages of checkpoints, and scores: rebuilt from existing checkpoints."""


_WORDS = {
    "data": Invalidates.DATA | Invalidates.HELD_OUT,
    "run": Invalidates.RUN,
    "updates": Invalidates.UPDATES,
    "updates with a cosine or linear schedule": Invalidates.SCHEDULE_END,
    "scores": Invalidates.SCORES,
    "results": Invalidates.TRANSLATIONS | Invalidates.RESULTS,
}


@dataclass(frozen=True)
class Declaration:
    """A key of a recipe, as its field declares it.

    Attributes:
        invalidates: For the key, and by default for keys inside it; None if undeclared.
        sections: The sections that the key may hold; empty where it holds a value.
    """

    invalidates: Invalidates | None
    sections: tuple[type[BaseModel], ...] = ()

    def of_key(self, key: str) -> "Declaration":
        """Returns the declaration of a key inside; an unknown key's is that of the section."""
        for section in self.sections:
            if field := section.model_fields.get(key):
                own = [each for each in field.metadata if isinstance(each, Invalidates)]
                invalidates = own[0] if own else self.invalidates
                return Declaration(invalidates, tuple(_find_sections(field.annotation)))
        return Declaration(self.invalidates)

    def describe(self) -> list[str]:
        """Returns in words what the key invalidates; empty for nothing."""
        invalidates = self.invalidates or Invalidates.NOTHING
        return [word for word, meant in _WORDS.items() if invalidates & meant]


def _find_sections(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yields the sections that a type holds, on its own, in a list or in a union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _find_sections(argument)
