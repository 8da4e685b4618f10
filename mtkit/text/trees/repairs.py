"""Counts of repairs that make a parser's output a tree."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Repairs:
    """The repairs of a parser's output.

    Attributes:
        brackets_added: Constituents that the parser hadn't closed.
        brackets_removed: Brackets that closed nothing, held nothing, or were unknown.
        leaves_added: Words that the parser had left out; each follows the word before it.
        leaves_removed: Leaves without a word.
        tags_changed: Tags of punctuation on other words, and the reverse.
    """

    brackets_added: int = 0
    brackets_removed: int = 0
    leaves_added: int = 0
    leaves_removed: int = 0
    tags_changed: int = 0

    def __bool__(self) -> bool:
        """Returns whether there was any repair."""
        return any(asdict(self).values())
