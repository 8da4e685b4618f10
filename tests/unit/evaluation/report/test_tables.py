import io
import json
from dataclasses import asdict

import pytest
from rich.console import Console

from mtkit.evaluation.evaluate import EvaluatedTestSet
from mtkit.evaluation.report.tables import (
    ScoreRow,
    as_cells,
    as_markdown,
    as_tab_separated,
    from_tables,
    is_better,
    is_significant,
    list_rows,
    show_p_value,
    show_table,
)
from mtkit.evaluation.results import Interval, ScoreDifference, SystemResult, SystemScore
from mtkit.recipe.evaluation import Evaluation

ROWS = [
    ScoreRow("flickr", "BLEU", 41.0249, "nrefs:1|tok:13a", 1000),
    ScoreRow("flickr", "TER", 40.0, "nrefs:1|tok:tercom", 1000),
]


def test_rows_carry_the_test_set_and_its_size() -> None:
    score = SystemScore("chrF2", 60.5, "nrefs:1", interval=Interval(59.0, 62.0))
    evaluated = EvaluatedTestSet("flickr", 7, (SystemResult("base", (score,)),), {}, Evaluation())
    assert list_rows(evaluated) == [
        ScoreRow("flickr", "chrF2", 60.5, "nrefs:1", 7, "base", Interval(59.0, 62.0))
    ]


def test_cells_round_to_two_decimals() -> None:
    assert as_cells(ROWS)[0] == ("flickr", "BLEU", "41.02", "nrefs:1|tok:13a")


def test_json_keeps_every_digit() -> None:
    assert json.loads(json.dumps(asdict(ROWS[0]))) == {
        "test_set": "flickr",
        "metric": "BLEU",
        "value": 41.0249,
        "signature": "nrefs:1|tok:13a",
        "num_sentences": 1000,
        "system": "",
        "interval": None,
        "difference": None,
        "verbose_score": "",
    }


def test_lines_are_tab_separated() -> None:
    assert as_tab_separated(ROWS) == (
        "flickr\tBLEU\t41.02\tnrefs:1|tok:13a\nflickr\tTER\t40.00\tnrefs:1|tok:tercom\n"
    )


def test_intervals_and_differences_follow_where_there_are_any() -> None:
    difference = ScoreDifference(-1.5, 0.004, "bootstrap", Interval(-2.0, -1.0), 0.6)
    rows = [
        ScoreRow("flickr", "BLEU", 41.0, "s", 9, "a", Interval(40.0, 42.0)),
        ScoreRow("flickr", "BLEU", 39.5, "s", 9, "b", Interval(38.0, 41.0), difference),
    ]
    assert as_tab_separated(rows) == (
        "a\tBLEU\t41.00\ts\t40.00\t42.00\t\t\nb\tBLEU\t39.50\ts\t38.00\t41.00\t-1.50\t0.0040\n"
    )
    stream = io.StringIO()
    show_table(rows, Console(file=stream, width=120))
    assert "38.00 to 41.00" in stream.getvalue()
    assert "-1.50" in stream.getvalue()


def test_table_shows_whole_signatures_however_narrow() -> None:
    stream = io.StringIO()
    show_table(ROWS, Console(file=stream, width=40))
    assert stream.getvalue().splitlines()[-2:] == [
        "BLEU: nrefs:1|tok:13a",
        "TER: nrefs:1|tok:tercom",
    ]


def test_square_brackets_of_a_file_name_are_no_markup() -> None:
    stream = io.StringIO()
    rows = [ScoreRow("x", "BLEU", 41.0, "s", 9, name) for name in ("out[best].de", "out[/b].de")]
    show_table(rows, Console(file=stream, width=60))
    assert "out[best].de" in stream.getvalue()
    assert "out[/b].de" in stream.getvalue()


def test_a_row_is_read_back_from_its_table() -> None:
    difference = ScoreDifference(-1.5, 0.004, "bootstrap", Interval(-2.0, -1.0), 0.6)
    rows = [
        ROWS[0],
        ScoreRow("flickr", "BLEU", 39.5, "s", 9, "b", Interval(38.0, 41.0), difference),
    ]
    assert from_tables(json.loads(json.dumps([asdict(row) for row in rows]))) == rows


INTERVAL = Interval(20.0, 22.0)
BASELINE = SystemResult(
    "base|line_1",
    (
        SystemScore("BLEU", 21.0, "nrefs:1|tok:13a", True, INTERVAL),
        SystemScore("TER", 60.0, "nrefs:1|tok:tercom", False),
    ),
)
BETTER = SystemResult(
    "better",
    (
        SystemScore(
            "BLEU",
            22.5,
            "nrefs:1|tok:13a",
            True,
            Interval(21.5, 23.5),
            ScoreDifference(1.5, 0.0004, "bootstrap", Interval(1.0, 2.0), 0.5),
        ),
        SystemScore(
            "TER",
            58.75,
            "nrefs:1|tok:tercom",
            False,
            None,
            ScoreDifference(-1.25, 0.05, "randomization", Interval(-2.0, -0.5), 0.7),
        ),
    ),
)


def test_markdown_for_a_paper() -> None:
    assert as_markdown([BASELINE, BETTER], {"test set": "t_1, 9 sentences", "versions": "x 2"}) == (
        "| System | BLEU ↑[^1] | TER ↓[^2] |\n"
        "| --- | ---: | ---: |\n"
        "| base\\|line\\_1 | 21.00 [20.00, 22.00] | 60.00 |\n"
        "| better | **22.50** [21.50, 23.50] (+1.50, p \\< 0.001) "
        "| **58.75** (\u22121.25, p = 0.050) |\n"
        "\n"
        "[^1]: BLEU, higher is better: `nrefs:1|tok:13a`\n"
        "[^2]: TER, lower is better: `nrefs:1|tok:tercom`\n"
        "\n"
        "test set: t\\_1, 9 sentences; versions: x 2; p-values: paired bootstrap, against "
        "base\\|line\\_1\n"
    )


def test_a_system_alone_is_not_the_best() -> None:
    assert "**" not in as_markdown([BASELINE], {})


def test_fewer_edits_are_better() -> None:
    bleu, ter = BETTER.scores
    assert is_better(bleu)
    assert is_better(ter)
    assert not is_better(BASELINE.scores[0])


def test_significant_is_less_than_the_level() -> None:
    bleu, ter = BETTER.scores
    assert is_significant(bleu)
    assert not is_significant(ter)
    assert not is_significant(BASELINE.scores[0])


@pytest.mark.parametrize(
    ("p_value", "shown"), [(0.00099, "p < 0.001"), (0.001, "p = 0.001"), (1.0, "p = 1.000")]
)
def test_p_values_are_never_nought(p_value: float, shown: str) -> None:
    assert show_p_value(p_value) == shown
