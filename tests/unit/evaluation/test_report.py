import io
import json

from rich.console import Console

from mtkit.evaluation.report import (
    ScoreRow,
    as_cells,
    as_json_text,
    as_tab_separated,
    list_rows,
    show_table,
)
from mtkit.evaluation.scores import Score

ROWS = [
    ScoreRow("flickr", "BLEU", 41.0249, "nrefs:1|tok:13a", 1000),
    ScoreRow("flickr", "TER", 40.0, "nrefs:1|tok:tercom", 1000),
]


def test_rows_carry_the_test_set_and_its_size() -> None:
    scores = [Score("chrf", "chrF2", 60.5, "nrefs:1")]
    assert list_rows("flickr", scores, 7) == [ScoreRow("flickr", "chrF2", 60.5, "nrefs:1", 7)]


def test_cells_round_to_two_decimals() -> None:
    assert as_cells(ROWS)[0] == ("flickr", "BLEU", "41.02", "nrefs:1|tok:13a")


def test_json_keeps_every_digit() -> None:
    assert json.loads(as_json_text(ROWS))[0] == {
        "test_set": "flickr",
        "metric": "BLEU",
        "value": 41.0249,
        "signature": "nrefs:1|tok:13a",
        "num_sentences": 1000,
    }


def test_lines_are_tab_separated() -> None:
    assert as_tab_separated(ROWS) == (
        "flickr\tBLEU\t41.02\tnrefs:1|tok:13a\nflickr\tTER\t40.00\tnrefs:1|tok:tercom\n"
    )


def test_table_shows_whole_signatures_however_narrow() -> None:
    stream = io.StringIO()
    show_table(ROWS, Console(file=stream, width=40))
    cells = [line.split("│")[-2].strip() for line in stream.getvalue().splitlines() if "│" in line]
    assert "".join(cells) == "nrefs:1|tok:13anrefs:1|tok:tercom"
