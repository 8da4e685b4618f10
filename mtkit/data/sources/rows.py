"""A row of labelled text, whatever it was read from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LabelledRow:
    """A text with its label.

    Attributes:
        text: The text, in one line; blank where the file has none.
        second: The second text of a pair; empty where there are no pairs.
        label: The label, without white space around it.
        number: Number of its line or row in the file, from 1.
    """

    text: str
    second: str
    label: str
    number: int
