"""Rows of corpora in a form that tests compare."""

from typing import NamedTuple

from mtkit.data.sources.blocks import Block
from mtkit.data.sources.corpora import decode_all
from mtkit.recipe.text_corpora import ClassifierCorpus


class LabelledRow(NamedTuple):
    """A text, or a pair of texts, with its label and the number of its row."""

    text: str
    second: str
    label: str
    number: int


def decode_block(block: Block, *, drop_invalid: bool) -> tuple[list[str], list[str], int]:
    """Returns sources, targets, and how many lines were invalid UTF-8."""
    rows = block.decode(drop_invalid=drop_invalid)
    return rows.columns["source"], rows.columns["target"], rows.num_invalid


def read_rows(corpus: ClassifierCorpus) -> list[LabelledRow]:
    """Returns all rows of labelled text."""
    return [
        LabelledRow(*values)
        for rows in decode_all(corpus)
        for values in zip(*rows.columns.values(), rows.numbers.tolist(), strict=True)
    ]
