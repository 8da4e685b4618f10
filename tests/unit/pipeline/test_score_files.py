import gzip
from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.pipeline.score_files import score_files
from mtkit.recipe.evaluation import Evaluation

BLEU = Evaluation(metrics=("bleu",))


def test_files_may_be_gzipped_or_end_lines_as_windows_does(tmp_path: Path) -> None:
    hypothesis, reference = tmp_path / "out.de.gz", tmp_path / "ref.de"
    hypothesis.write_bytes(gzip.compress(b"ein Haus am See\nja\n"))
    reference.write_bytes(b"ein Haus am See\r\nja\r\n")
    [row] = score_files(hypothesis, [reference], BLEU)
    assert (row.test_set, row.num_sentences) == (str(hypothesis), 2)
    assert row.value == pytest.approx(100.0)


def test_files_of_unequal_length_are_both_named(tmp_path: Path) -> None:
    hypothesis, reference = tmp_path / "out", tmp_path / "ref"
    hypothesis.write_text("a\nb\n")
    reference.write_text("a\nb\nc\n")
    with pytest.raises(MtkitError, match=r"out has 2 lines, but .*ref has 3"):
        score_files(hypothesis, [reference], BLEU)


def test_a_missing_file_and_an_empty_one_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(MtkitError, match=r"absent: no such file"):
        score_files(tmp_path / "absent", [tmp_path / "empty"], BLEU)
    with pytest.raises(MtkitError, match=r"empty: no lines in it"):
        score_files(tmp_path / "empty", [tmp_path / "empty"], BLEU)
