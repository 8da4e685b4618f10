"""A flag on a line's translation."""

from dataclasses import dataclass

from mtkit.recipe.flags import FlagName


@dataclass(frozen=True)
class Flag:
    """A reason to look at a translation: a measured value beyond a threshold."""

    name: FlagName
    found: int | float
    threshold: int | float
    text: str
