"""Scores of test sets as a table, as lines, as JSON, as Markdown."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mtkit.console import warn
from mtkit.evaluation.evaluate import EvaluatedTestSet
from mtkit.evaluation.results import (
    Interval,
    ScoreDifference,
    SystemResult,
    SystemScore,
    TestKind,
)

SIGNIFICANCE_LEVEL = 0.05
"""A difference is called significant if its p-value is lower."""
TESTS: Final[Mapping[TestKind, str]] = {
    "bootstrap": "paired bootstrap",
    "randomization": "approximate randomisation",
}
"""Names of the tests of differences."""
_MARKDOWN_MARKUP = re.compile(r"([\\`*_\[\]<>|~])")


@dataclass(frozen=True)
class ScoreRow:
    """One metric's value for one system on one test set.

    Attributes:
        metric: sacreBLEU's name of the metric.
        value: Percentage points.
        signature: sacreBLEU's signature.
        system: The system's name; empty for the run's own model.
        interval: The value's confidence interval.
        difference: Difference from the first system; None for that one.
        verbose_score: sacreBLEU's precisions, brevity penalty and lengths of a BLEU score.
    """

    test_set: str
    metric: str
    value: float
    signature: str
    num_sentences: int
    system: str = ""
    interval: Interval | None = None
    difference: ScoreDifference | None = None
    verbose_score: str = ""


_ROWS = TypeAdapter(list[ScoreRow])


def list_rows(evaluated: EvaluatedTestSet, *, names_systems: bool = True) -> list[ScoreRow]:
    """Returns a row for each system and metric, optionally without the system's name."""
    return [
        ScoreRow(
            test_set=evaluated.test_set,
            metric=score.name,
            value=score.value,
            signature=score.signature,
            num_sentences=evaluated.num_sentences,
            system=system.name if names_systems else "",
            interval=score.interval,
            difference=score.difference,
            verbose_score=score.verbose_score,
        )
        for system in evaluated.systems
        for score in system.scores
    ]


def from_tables(tables: object) -> list[ScoreRow]:
    """Returns the rows that were saved as tables; a ValidationError for other data."""
    return _ROWS.validate_python(tables)


def as_cells(rows: Sequence[ScoreRow]) -> list[tuple[str, str, str, str]]:
    """Returns system or test set, metric, value with two decimals and signature of each row."""
    return [
        (row.system or row.test_set, row.metric, f"{row.value:.2f}", row.signature) for row in rows
    ]


def as_tab_separated(rows: Sequence[ScoreRow]) -> str:
    """Returns a line per row: cells and, if any row has them, interval and difference."""
    return "".join(
        "\t".join((*cells, *ends, *difference)) + "\n"
        for cells, (ends, difference) in zip(as_cells(rows), _list_significance(rows), strict=True)
    )


def show_table(rows: Sequence[ScoreRow], console: Console) -> None:
    """Prints a table with a row per test set, system and metric, and each signature below it."""
    table = Table()
    table.add_column("system" if any(row.system for row in rows) else "test set", overflow="fold")
    table.add_column("metric", overflow="fold")
    numbers = ["score"]
    numbers += ["interval"] if any(row.interval for row in rows) else []
    numbers += ["difference", "p"] if any(row.difference for row in rows) else []
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    significance = _list_significance(rows)
    for (*cells, _), (ends, difference) in zip(as_cells(rows), significance, strict=True):
        interval = [" to ".join(filter(None, ends))] if ends else []
        # Square brackets in a file's name aren't markup.
        table.add_row(*map(Text, (*cells, *interval, *difference)))
    console.print(table)
    for metric, signature in dict.fromkeys((row.metric, row.signature) for row in rows):
        console.print(Text(f"{metric}: {signature}"), soft_wrap=True)


def _list_significance(rows: Sequence[ScoreRow]) -> list[tuple[list[str], list[str]]]:
    """Returns both ends of each row's interval, and its difference with p-value."""
    has_intervals = any(row.interval for row in rows)
    has_differences = any(row.difference for row in rows)
    found = []
    for row in rows:
        ends, difference = [""] * 2 * has_intervals, [""] * 2 * has_differences
        if row.interval is not None:
            ends = [f"{row.interval.low:.2f}", f"{row.interval.high:.2f}"]
        if row.difference is not None:
            difference = [f"{row.difference.value:+.2f}", f"{row.difference.p_value:.4f}"]
        found.append((ends, difference))
    return found


def is_significant(score: SystemScore) -> bool:
    """Checks that a score differs significantly from the baseline's."""
    return score.difference is not None and score.difference.p_value < SIGNIFICANCE_LEVEL


def is_better(score: SystemScore) -> bool:
    """Checks that a score is better than the baseline's, even by chance."""
    if score.difference is None:
        return False
    return score.difference.value > 0 if score.higher_is_better else score.difference.value < 0


def find_best(results: Sequence[SystemResult], metric: str) -> float | None:
    """Returns the best of all systems' scores by a metric; None with fewer than two."""
    scores = [score for result in results for score in result.scores if score.name == metric]
    if len(scores) < 2:
        return None
    choose = max if scores[0].higher_is_better else min
    return choose(score.value for score in scores)


def list_metrics(results: Sequence[SystemResult]) -> list[SystemScore]:
    """Returns a score for each metric of any system, in their order."""
    return list({score.name: score for result in results for score in result.scores}.values())


def show_signed(value: float) -> str:
    """Returns a difference with its sign and two decimals, with a minus instead of a hyphen."""
    return f"{value:+.2f}".replace("-", "\u2212")


def show_p_value(p_value: float) -> str:
    """Returns a p-value as papers write it."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def as_markdown(results: Sequence[SystemResult], facts: Mapping[str, str]) -> str:
    """Returns a table of systems and metrics for a paper, with signatures as footnotes.

    Intervals are in brackets, the best score of a metric is bold, and differences from the
    baseline, which is the first system, have p-values. `facts` go below the table, by name.
    """
    # Imported here: scores alone need no templates.
    from mtkit.pages import open_templates  # noqa: PLC0415

    environment = open_templates("mtkit.evaluation.report", is_html=False)
    environment.filters.update(
        signed=show_signed,
        p_value=show_p_value,
        escaped=lambda name: _MARKDOWN_MARKUP.sub(r"\\\1", name),
    )
    metrics = list_metrics(results)
    differences = [score.difference for score in results[-1].scores if score.difference]
    return environment.get_template("table.md.jinja").render(
        facts=facts,
        test=TESTS[differences[0].test] if differences else "",
        results=results,
        metrics=metrics,
        scores={result.name: {score.name: score for score in result.scores} for result in results},
        best={metric.name: find_best(results, metric.name) for metric in metrics},
    )


def warn_of_remarks(evaluated: EvaluatedTestSet, *, names_systems: bool) -> None:
    """Prints what makes the scores of a test set doubtful."""
    for system in evaluated.systems:
        name = system.name if names_systems else evaluated.test_set
        for remark in system.remarks:
            warn(f"{name}: {remark}")
