"""A flag on a line's translation."""

from dataclasses import dataclass
from typing import Literal

from mtkit.recipe.flags import FlagName


@dataclass(frozen=True)
class Flag:
    """A reason to look at a translation: a measured value beyond a threshold.

    `bad answer`: a large language model never responded in the requested form.
    """

    name: FlagName | Literal["bad answer"]
    found: int | float
    threshold: int | float
    text: str
