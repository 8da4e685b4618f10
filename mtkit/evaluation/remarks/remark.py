"""A remark on the text."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Remark:
    """Something that was seen in the text.

    Attributes:
        kind: One word for it, such as `tokenized`; for programs.
        text: The finding, with numbers, its possible meaning, and advice.
    """

    kind: str
    text: str


def of_all(count: int, total: int) -> str:
    """Returns a count of all, in words."""
    return f"{count:,} of {total:,}"
