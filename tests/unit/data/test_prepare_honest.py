"""What `mtkit prepare` says of held-out sets that aren't held out, and of rows without text."""

from pathlib import Path

import pytest

from mtkit.data.check import CheckFindings, check_recipe_data
from mtkit.data.phrasebook import generate_pairs
from mtkit.errors import MtkitError
from mtkit.recipe import load_recipe

RECIPE = """\
name = "small"
[data]
source_language = "en"
target_language = "de"
train = [{ path = "train.tsv" }]
dev = { path = "dev.tsv" }
[tokenizer]
vocab_size = 100
[[evaluation.test_sets]]
name = "held-out"
path = "test.tsv"
"""


def check(folder: Path, *overrides: str) -> CheckFindings:
    pairs = list(generate_pairs("train", 340))
    for name, first, last in (("train", 0, 300), ("dev", 300, 320), ("test", 320, 340)):
        rows = "".join(f"{source}\t{target}\n" for source, target in pairs[first:last])
        (folder / f"{name}.tsv").write_text(rows)
    (folder / "mtkit.toml").write_text(RECIPE)
    return check_recipe_data(load_recipe(folder / "mtkit.toml", overrides))


def list_notes(found: CheckFindings) -> str:
    assert found.report is not None
    return "\n".join(found.report.notes)


def test_a_test_set_that_is_the_development_set_is_noted(tmp_path: Path) -> None:
    assert "held-out" not in list_notes(check(tmp_path))
    notes = list_notes(check(tmp_path, "data.dev.path=test.tsv"))
    assert "20 of the 20 lines of the test set held-out are in data.dev" in notes


def test_a_file_in_another_encoding_is_no_file_without_its_lines(tmp_path: Path) -> None:
    check(tmp_path)
    pairs = [line.split("\t") for line in (tmp_path / "dev.tsv").read_text().splitlines()]
    for side, name in enumerate(("dev.en", "dev.de")):
        lines = "".join(f"{pair[side]}\n" for pair in pairs)
        (tmp_path / name).write_text(lines, encoding="utf-16" if side else "utf-8")
    sides = ("~data.dev.path", "data.dev.source=dev.en", "data.dev.target=dev.de")
    [fault] = check(tmp_path, *sides).faults
    assert fault.message.startswith(f"{tmp_path}/dev.de:1: byte 1 of the line is invalid UTF-8")
    assert fault.hint.startswith("it is UTF-16; convert it: iconv")


@pytest.mark.parametrize("key", ["data.dev.path", "evaluation.test_sets.0.path"])
def test_training_text_that_is_held_out_stays_left_out(tmp_path: Path, key: str) -> None:
    [fault] = check(tmp_path, f"{key}=train.tsv").faults
    assert isinstance(fault, MtkitError)
    assert "no pairs left of 300" in fault.message
    assert "by overlap" in fault.message
    assert "in the development or test sets" in fault.hint
    assert "enabled=false" not in fault.hint


def test_blank_rows_are_in_no_quotation_marks(tmp_path: Path) -> None:
    check(tmp_path)
    text = (tmp_path / "train.tsv").read_text()
    (tmp_path / "spaced.tsv").write_text(text.replace("\n", "\n\n"))
    found = check(tmp_path, "data.train.0.path=spaced.tsv")
    assert found.report is not None
    assert found.report.corpora[0]["quoted"] == 0
    assert "blank drops 50% of all pairs" in list_notes(found)
    assert "turn off that filter" not in list_notes(found)
