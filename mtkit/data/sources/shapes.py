"""Reads the values of a file as pairs, lines in one language, or labelled texts.

Each is a `Shape` of `blocks.py`, for any file format.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mtkit.data.sources.blocks import Rows, Shape, as_one_line, split_lines
from mtkit.data.sources.documents import DocumentRun
from mtkit.data.sources.planted_faults import FAULT, TRANSLATION, plant_faults
from mtkit.errors import MtkitError
from mtkit.recipe.text_corpora import Documents, PlantedFault


def as_pairs(rows: Rows) -> Rows:
    """Returns the pairs of a table, with spaces for line breaks inside values."""
    columns = {name: list(map(as_one_line, values)) for name, values in rows.columns.items()}
    return replace(rows, columns=columns)


def as_lines(separated_by: Documents) -> Shape:
    """Returns the shape of a text file in one language: blank lines are dropped."""
    return partial(_leave_out_blank, separated_by=separated_by)


def _leave_out_blank(rows: Rows, *, separated_by: Documents) -> Rows:
    lines = rows.columns["text"]
    is_blank = np.array([not line.strip() for line in lines])
    kept = np.flatnonzero(~is_blank)
    match separated_by:
        case "blank-lines":
            before, last = np.cumsum(is_blank), int(np.count_nonzero(is_blank))
        case "lines":
            before, last = np.arange(len(lines)), len(lines)
        case "file":
            before, last = np.zeros(len(lines), np.int64), 0
    return replace(
        rows,
        columns={"text": [lines[index] for index in kept.tolist()]},
        numbers=rows.numbers[kept],
        # Without names, the document that the last block ends in continues.
        documents=DocumentRun(before[kept].astype(np.int64), last, opens="", closes=""),
    )


def as_texts(rows: Rows) -> Rows:
    """Returns the lines of a table's texts that aren't blank.

    A line break inside a text separates two lines. Consecutive rows with the same name in the
    column `document` are a document; without that column, or a name, each row is one.
    """
    texts, names = rows.columns["text"], rows.columns.get("document")
    is_new = [True] * len(texts)
    if names is not None:
        is_new = [
            not name or index == 0 or name != names[index - 1] for index, name in enumerate(names)
        ]
    numbers = np.cumsum(is_new, dtype=np.int64) - 1
    kept = [
        (line, row)
        for row, text in enumerate(texts)
        for line in split_lines(text)
        if line and line.strip()
    ]
    owners = np.array([row for _, row in kept], dtype=np.int64)
    run = DocumentRun(
        numbers[owners],
        int(numbers[-1]),
        (names[0] or None) if names else None,
        (names[-1] or None) if names else None,
    )
    return replace(
        rows,
        columns={"text": [line for line, _ in kept]},
        numbers=rows.numbers[owners],
        documents=run,
    )


def as_labelled(rows: Rows) -> Rows:
    """Returns texts, or pairs of texts, with their labels; drops empty rows."""
    columns = {name: list(map(as_one_line, values)) for name, values in rows.columns.items()}
    seconds = columns.get("second") or [""] * len(rows.numbers)
    found = [
        (index, text, second, label.strip())
        for index, (text, second, label) in enumerate(
            zip(columns["text"], seconds, columns["label"], strict=True)
        )
        if text.strip() or second.strip() or label.strip()
    ]
    for index, _, _, label in found:
        if not label:
            where = rows.locate(int(rows.numbers[index]), "label")
            raise MtkitError(f"{where}: no label", "label it, or take it out")
    return _labelled(rows, found)


@dataclass(frozen=True)
class PlantedFaultsShape:
    """The shape of pairs, each followed by the same with a planted fault (`plant_faults`)."""

    kinds: tuple[PlantedFault, ...]

    def __call__(self, rows: Rows) -> Rows:
        """Returns pairs labelled `translation`, and pairs with a fault labelled `fault`."""
        pairs = list(zip(rows.columns["source"], rows.columns["target"], strict=True))
        found = []
        for index, faulty in plant_faults(pairs, self.kinds, int(rows.numbers[0])):
            found.append((index, *pairs[index], TRANSLATION))
            if faulty is not None:
                found.append((index, *faulty, FAULT))
        return _labelled(rows, found)


def _labelled(rows: Rows, found: Sequence[tuple[int, str, str, str]]) -> Rows:
    indices = np.array([index for index, *_ in found], dtype=np.int64)
    texts, seconds, labels = ([str(row[place]) for row in found] for place in (1, 2, 3))
    return replace(
        rows,
        columns={"text": texts, "second": seconds, "label": labels},
        numbers=rows.numbers[indices],
    )
