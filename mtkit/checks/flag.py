"""A flag on a line's translation."""

from dataclasses import dataclass

from mtkit.recipe.flags import FlagName


@dataclass(frozen=True)
class Flag:
    """A reason to look at a translation.

    Attributes:
        name: Its name, one of `inference.flags.names`.
        found: What was measured: a share, a probability, a ratio or a count.
        threshold: The limit that it is beyond.
        text: The finding in words, for people.
    """

    name: FlagName
    found: int | float
    threshold: int | float
    text: str
