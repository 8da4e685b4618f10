"""Term accuracy and consistency, counted by hand."""

from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.evaluation.evaluate import ReferenceText, evaluate
from mtkit.evaluation.results import Interval
from mtkit.evaluation.term_scores import TermScorer
from mtkit.recipe.evaluation import Evaluation

from ...command import run_here

GLOSSARY = "shirt\tHemd\nshirt\tOberteil\ncat\tKatze\ncat\tHund\tforbidden\nwell\tBrunnen\n"
SOURCES = ["a shirt", "a shirt and a shirt", "no term", "the cat", "a shirt", "a cat in a shirt"]
SYSTEM = [
    "ein Hemd",
    "Oberteil, Oberteile",
    "Hemd",
    "die Katzen",
    "ein T-Kleid",
    "Hund im Oberteil",
]
# shirt: Hemd; Oberteil, Oberteil; nothing; Oberteil. cat: Katze; nothing (Hund is forbidden).


@pytest.fixture
def glossary(tmp_path: Path) -> Path:
    path = tmp_path / "terms.tsv"
    path.write_text(GLOSSARY)
    return path


def test_accuracy_and_consistency_of_occurrences(glossary: Path) -> None:
    accuracy, consistency = TermScorer(glossary, SOURCES, None).measure(SYSTEM)
    # Hemd once and Katze once, of seven; Oberteil three times and Katze once.
    assert accuracy.value == pytest.approx(100 * 2 / 7)
    assert consistency.value == pytest.approx(100 * 4 / 7)
    assert accuracy.per_sentence[:, 1].tolist() == [1, 2, 0, 1, 1, 2]
    assert accuracy.name == "term accuracy"
    assert "occurrences:7" in accuracy.signature


def test_each_document_has_its_own_most_frequent_translation(glossary: Path) -> None:
    documents = ["a", "b", "b", "b", "c", "c"]
    _, consistency = TermScorer(glossary, SOURCES, documents).measure(SYSTEM)
    # a: Hemd 1 of 1; b: Oberteil 2 of 2, Katze 1 of 1; c: Oberteil 1 of 2, cat 0 of 1.
    assert consistency.value == pytest.approx(100 * 5 / 7)


def test_a_word_counts_for_one_occurrence(glossary: Path) -> None:
    accuracy, _ = TermScorer(glossary, ["a shirt and a shirt"], None).measure(["ein Hemd"])
    assert accuracy.value == pytest.approx(50.0)


def test_what_cant_be_scored(glossary: Path, tmp_path: Path) -> None:
    with pytest.raises(MtkitError, match="terms are found in the source text") as missing:
        TermScorer(glossary, None, None)
    assert missing.value.hint == "give it with --source FILE"


def test_systems_are_compared_by_terms(glossary: Path, tmp_path: Path) -> None:
    for name, lines in (
        ("src", SOURCES),
        ("ref", ["ein Hemd"] * 6),
        ("a", SYSTEM),
        ("b", ["Hemd", "Hemd Hemd", "", "Katze", "Hemd", "Katze Hemd"]),
    ):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    files = ("--hypothesis", "a", "--hypothesis", "b", "--reference", "ref", "--source", "src")
    done = run_here(tmp_path, "score", *files, "--glossary", "terms.tsv")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [(row[0], row[2]) for row in rows if row[1] == "term accuracy"] == [
        ("a", "28.57"),
        ("b", "100.00"),
    ]
    done = run_here(tmp_path, "score", *files, "--glossary", "none.tsv")
    assert (done.returncode, "none.tsv: no such glossary" in done.stderr) == (1, True)
    without_source = files[:-2]
    done = run_here(tmp_path, "score", *without_source, "--glossary", "terms.tsv")
    assert "give it with --source FILE" in done.stderr


def test_resamples_without_an_occurrence_dont_count(glossary: Path) -> None:
    text = ReferenceText("test", [["x"] * 40], ["a cat", *["nothing"] * 39])
    settings = Evaluation(metrics=("chrf",), glossary=glossary)
    systems = {"a": ["Katze"] + ["x"] * 39, "b": ["Hund"] + ["x"] * 39}
    found = evaluate(systems, text, settings)
    right, wrong = ({each.name: each for each in of.scores} for of in found.systems)
    # Each resample has one right occurrence or more, or none at all.
    assert right["term accuracy"].interval == Interval(100.0, 100.0)
    difference = wrong["term accuracy"].difference
    assert difference is not None
    assert (difference.value, difference.interval) == (-100.0, Interval(-100.0, -100.0))


def test_a_test_set_without_terms_keeps_its_other_scores(
    glossary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ReferenceText("test", [["x", "y"]], ["nothing", "nothing"])
    found = evaluate({"a": ["x", "y"]}, text, Evaluation(metrics=("chrf",), glossary=glossary))
    assert [each.name for each in found.systems[0].scores] == ["chrF2"]
    assert "test: its source text has none of the terms" in capsys.readouterr().err
