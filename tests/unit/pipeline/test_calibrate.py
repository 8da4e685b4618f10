"""Labels of `mtkit calibrate`: what is read, and what is rejected."""

from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.pipeline.calibrate import calibrate, read_labels
from mtkit.recipe.inference import Inference, Quality

GOOD = "A dog.\tEin Hund.\tok\n"


def test_labels_in_all_forms(tmp_path: Path) -> None:
    path = tmp_path / "labels.tsv"
    path.write_bytes("\ufeffA dog.\tEin Hund.\tok\r\nA cat.\t\tBad\r\nx\ty\t1\nx\tz\t0".encode())
    assert read_labels(path) == [
        ("A dog.", "Ein Hund.", True),
        ("A cat.", "", False),
        ("x", "y", True),
        ("x", "z", False),
    ]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (f"{GOOD}A cat.\tbad\n", "labels.tsv:2: 2 columns, expected a source, its translation and"),
        (f"{GOOD}a\tb\tc\tbad\n", "labels.tsv:2: 4 columns"),
        (f"{GOOD}\n", "labels.tsv:2: 1 column, "),
        (f"{GOOD} \tb\tbad\n", "labels.tsv:2: an empty source"),
        ("source\ttarget\tlabel\n", "labels.tsv:1: label 'label', expected ok or bad"),
        (f"{GOOD}a\tb\t\n", "labels.tsv:2: label '', expected"),
        (f"{GOOD}a\tb\t{'x' * 1_000}\n", r"labels.tsv:2: label 'x{1,37}"),
        ("", "labels.tsv: empty, so nothing can be learned"),
        (GOOD * 3, "labels.tsv: all labels are ok"),
        (GOOD.replace("ok", "0") * 3, "labels.tsv: all labels are bad"),
    ],
)
def test_labels_with_a_fault(tmp_path: Path, content: str, fault: str) -> None:
    path = tmp_path / "labels.tsv"
    path.write_text(content)
    with pytest.raises(MtkitError, match=fault):
        read_labels(path)


def test_repeated_labels_are_warned_of(tmp_path: Path, capsys) -> None:
    path = tmp_path / "labels.tsv"
    path.write_text(f"{GOOD}a\tb\tbad\n" * 3)
    assert len(read_labels(path)) == 6
    assert "labels.tsv: 4 repeated rows; each counts" in capsys.readouterr().err


def test_invalid_utf8(tmp_path: Path) -> None:
    path = tmp_path / "labels.tsv"
    path.write_bytes(GOOD.encode() + b"a\tb\xe9\tbad\n")
    with pytest.raises(MtkitError, match=r"labels\.tsv:2: byte 4 .* invalid UTF-8 \(0xe9\)"):
        read_labels(path)


def test_nothing_starts_without_a_file_to_write(tmp_path: Path) -> None:
    labels, nowhere = tmp_path / "labels.tsv", tmp_path / "no" / "q.json"
    with pytest.raises(MtkitError, match=r"inference\.quality\.path is empty"):
        calibrate(labels, [tmp_path], Inference())
    for path in (nowhere, tmp_path):
        with pytest.raises(MtkitError, match="can't be written"):
            calibrate(labels, [tmp_path], Inference(quality=Quality(path=path)))
