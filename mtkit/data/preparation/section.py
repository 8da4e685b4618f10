"""A section of the report: a table, as a terminal and a page show it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Rows = list[list[str]]


@dataclass(frozen=True)
class Section:
    """A table with what belongs to it.

    Attributes:
        title: Of the page's section.
        header: The head of each column.
        rows: The cells.
        caption: A sentence above the table.
        num_text_columns: Columns at the end that hold text, rather than numbers.
        on_terminal: Whether it is printed, too.
        in_check: Whether a check prints it, too.
        draw: Draws a picture below the table of the page, as SVG.
    """

    title: str
    header: Sequence[str]
    rows: Rows
    caption: str = ""
    num_text_columns: int = 0
    on_terminal: bool = True
    in_check: bool = False
    draw: Callable[[], str] | None = None


def share(count: int, total: int) -> str:
    """Returns a count with its share of a total."""
    return f"{count:,} {count / max(1, total):6.2%}"


def make_visible(text: str) -> str:
    """Returns text with characters that no font shows written out."""
    return "".join(
        character if character.isprintable() else f"⟨U+{ord(character):04X}⟩" for character in text
    )
