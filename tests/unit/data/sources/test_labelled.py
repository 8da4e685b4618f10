"""Labelled texts from tab-separated text, JSON lines and Parquet; faults with file and line."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mtkit.errors import MtkitError
from mtkit.recipe.corpora import LabelledTrainingCorpus
from mtkit.recipe.text_corpora import LabelledCorpus

from ....corpus_rows import LabelledRow, read_rows


def corpus(path: Path, **keys: object) -> LabelledCorpus:
    return LabelledCorpus(**{"path": path, "text_column": "text", "label_column": "label", **keys})


def test_columns_by_number_and_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("good\tWie schön.\tx\n\nbad\tWie schlimm.\ty\n", "utf-8")
    rows = read_rows(corpus(path, text_column=2, label_column=1))
    # A blank line is none.
    assert rows == [
        LabelledRow("Wie schön.", "", "good", 1),
        LabelledRow("Wie schlimm.", "", "bad", 3),
    ]
    path.write_text("label\tid\ttext\tsecond\n 1 \t7\ta\tb\n", "utf-8")
    [row] = read_rows(corpus(path, second_column="second"))
    assert row == LabelledRow("a", "b", "1", 2)


def test_json_lines_take_numbers_and_truth_for_labels(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    values = ["neutral", 3, True]
    lines = [json.dumps({"text": "a\nb", "label": value}) for value in values]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    rows = read_rows(corpus(path))
    assert [row.label for row in rows] == ["neutral", "3", "true"]
    # A line break inside a text would end it where lines are labelled.
    assert {row.text for row in rows} == {"a b"}


def test_parquet_and_max_pairs(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a", "b", "c"], "label": [0, 1, 0], "x": [1, 2, 3]}), path)
    given = LabelledTrainingCorpus(path=path, text_column="text", label_column="label", max_pairs=2)
    assert [(row.text, row.label, row.number) for row in read_rows(given)] == [
        ("a", "0", 1),
        ("b", "1", 2),
    ]


@pytest.mark.parametrize(
    ("content", "keys", "fault"),
    [
        ("a\tx\nb\t\n", {"text_column": 1, "label_column": 2}, r"a\.tsv:2: no label"),
        ("a\tx\nb\n", {"text_column": 1, "label_column": 2}, r"a\.tsv:2: 1 "),
        ("text\tLabel\na\tx\n", {}, r"a\.tsv:1: no column 'label'.*did you mean"),
        ("", {}, r"a\.tsv"),
    ],
)
def test_faults_of_tab_separated_text(tmp_path: Path, content: str, keys: dict, fault: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(content, "utf-8")
    with pytest.raises(MtkitError, match=f"(?s){fault}"):
        (read_rows(corpus(path, **keys)))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"text": "a"}', "2: no column 'label'"),
        ('{"text": ["a"], "label": "x"}', "2: expected text in 'text', found a list"),
        ('{"text": "a", "label": 0.5}', "2: expected a word or a whole number in 'label'"),
        ('{"text": "a", "label": null}', "2: no label"),
        ('{"text": "\\ud83d", "label": "x"}', "2: half of a surrogate pair"),
        ("[1]", "2: expected an object"),
    ],
)
def test_faults_of_json_lines(tmp_path: Path, line: str, fault: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": "x"}\n' + line + "\n", "utf-8")
    with pytest.raises(MtkitError, match=fault):
        (read_rows(corpus(path)))


def test_invalid_utf8_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"text\tlabel\na\tx\nb\xff\ty\n")
    with pytest.raises(MtkitError, match=r"a\.tsv:3"):
        (read_rows(corpus(path)))
