"""A section of the report: a table for a terminal and a page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Rows = list[list[str]]


@dataclass(frozen=True)
class ReportSection:
    """A table with its title and caption.

    Attributes:
        title: On the page.
        caption: A sentence above the table.
        num_text_columns: Columns at the end that hold text, not numbers.
        on_terminal: Whether it is printed as well.
        in_check: Whether a check prints it as well.
        draw: Returns a picture below the page's table, as SVG.
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
    """Returns text with unprintable characters written out."""
    return "".join(
        character if character.isprintable() else f"⟨U+{ord(character):04X}⟩" for character in text
    )
