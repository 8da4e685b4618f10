"""A flag on a line's translation."""

from dataclasses import asdict, dataclass
from typing import Any

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
    found: float
    threshold: float
    text: str

    def as_json(self) -> dict[str, Any]:
        """Returns the flag as an object for a JSON line."""
        return asdict(self)
