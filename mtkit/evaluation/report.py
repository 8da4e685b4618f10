"""Scores of test sets as a table, as lines, as JSON."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from mtkit.evaluation.scores import Score


@dataclass(frozen=True)
class ScoreRow:
    """One metric's value on one test set.

    Attributes:
        test_set: Its name in the recipe, or the file that was scored.
        metric: sacreBLEU's name of the metric.
        value: Percentage points.
        signature: sacreBLEU's signature.
        num_sentences: How many sentences were scored.
    """

    test_set: str
    metric: str
    value: float
    signature: str
    num_sentences: int


def list_rows(test_set: str, scores: Iterable[Score], num_sentences: int) -> list[ScoreRow]:
    """Returns one test set's scores as rows."""
    return [
        ScoreRow(test_set, score.name, score.value, score.signature, num_sentences)
        for score in scores
    ]


def as_tables(rows: Sequence[ScoreRow]) -> list[dict[str, Any]]:
    """Returns the rows as JSON can express them, values in full precision."""
    return [asdict(row) for row in rows]


def as_json_text(rows: Sequence[ScoreRow]) -> str:
    """Returns the rows as a JSON list of objects, values in full precision."""
    return json.dumps(as_tables(rows), indent=2, ensure_ascii=False) + "\n"


def as_cells(rows: Sequence[ScoreRow]) -> list[tuple[str, str, str, str]]:
    """Returns test set, metric, value with two decimals and signature of each row."""
    return [(row.test_set, row.metric, f"{row.value:.2f}", row.signature) for row in rows]


def as_tab_separated(rows: Sequence[ScoreRow]) -> str:
    """Returns a line per row with its cells."""
    return "".join("\t".join(cells) + "\n" for cells in as_cells(rows))


def show_table(rows: Sequence[ScoreRow], console: Console) -> None:
    """Prints a table with a row per test set and metric, signatures included."""
    table = Table()
    table.add_column("test set")
    table.add_column("metric")
    table.add_column("score", justify="right")
    table.add_column("signature", overflow="fold")
    for cells in as_cells(rows):
        table.add_row(*cells)
    console.print(table)
