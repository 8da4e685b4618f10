import gzip
from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.pipeline.score_files import Scoring, load_scoring, score_files, split_pair
from mtkit.recipe.evaluation import Evaluation

BLEU = Scoring(Evaluation(metrics=("bleu",)))


def test_files_may_be_gzipped_or_end_lines_as_windows_does(tmp_path: Path) -> None:
    hypothesis, reference = tmp_path / "out.de.gz", tmp_path / "ref.de"
    hypothesis.write_bytes(gzip.compress(b"ein Haus am See\nja\n"))
    reference.write_bytes(b"ein Haus am See\r\nja\r\n")
    scored = score_files([hypothesis], BLEU, references=[reference])
    [system] = scored.evaluated.systems
    assert (system.name, scored.evaluated.num_sentences) == (str(hypothesis), 2)
    assert [score.value for score in system.scores] == [pytest.approx(100.0)]
    assert "2 of 2 references end in a carriage return" in " ".join(system.remarks)
    assert scored.text.references == [["ein Haus am See", "ja"]]


def test_files_of_unequal_length_are_both_named(tmp_path: Path) -> None:
    hypothesis, reference = tmp_path / "out", tmp_path / "ref"
    hypothesis.write_text("a\nb\n")
    reference.write_text("a\nb\nc\n")
    with pytest.raises(MtkitError, match=r"out has 2 lines, but .*ref has 3"):
        score_files([hypothesis], BLEU, references=[reference])


def test_a_missing_file_and_an_empty_one_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(MtkitError, match=r"absent: no such file"):
        score_files([tmp_path / "absent"], BLEU, references=[tmp_path / "empty"])
    with pytest.raises(MtkitError, match=r"empty: no lines"):
        score_files([tmp_path / "empty"], BLEU, references=[tmp_path / "empty"])


def test_a_byte_order_mark_is_scored_as_sacrebleu_does_and_told_of(tmp_path: Path) -> None:
    hypothesis, reference = tmp_path / "out", tmp_path / "ref"
    hypothesis.write_bytes(b"\xef\xbb\xbfein Haus am See\n")
    reference.write_bytes(b"ein Haus am See\n")
    [system] = score_files([hypothesis], BLEU, references=[reference]).evaluated.systems
    # Three of four words match, and so do two, one and none of their sequences.
    assert system.scores[0].value < 100.0
    assert "byte order mark" in " ".join(system.remarks)


def test_several_systems_are_called_by_what_tells_them_apart(tmp_path: Path) -> None:
    for name, text in (("a", "ja\nnein\n"), ("b", "ja\nja\n"), ("ref", "ja\nnein\n")):
        (tmp_path / f"{name}.de").write_text(text)
    files = [tmp_path / "b.de", tmp_path / "a.de"]
    settings = Scoring(Evaluation(metrics=("chrf",)))
    first, second = score_files(files, settings, references=[tmp_path / "ref.de"]).evaluated.systems
    assert (first.name, second.name) == ("b", "a")
    assert first.scores[0].difference is None
    difference = second.scores[0].difference
    assert difference is not None
    assert difference.value == pytest.approx(100.0 - first.scores[0].value)
    with pytest.raises(MtkitError, match=r"a\.de is given twice"):
        score_files([files[1], files[1]], settings, references=[tmp_path / "ref.de"])


@pytest.mark.parametrize(
    ("given", "languages", "expected"),
    [
        ("wmt14/full:en-de", ("", ""), ("wmt14/full", ("en", "de"))),
        ("wmt14/full", ("en", "fr"), ("wmt14/full", ("en", "fr"))),
        ("wmt14/full:en-de", ("en", "fr"), ("wmt14/full", ("en", "de"))),
    ],
)
def test_a_test_set_is_named_with_its_languages_or_without(given, languages, expected) -> None:
    assert split_pair(given, languages) == expected


@pytest.mark.parametrize("given", ["wmt14/full", "wmt14/full:en", "wmt14/full:-de"])
def test_a_test_set_without_languages_is_refused(given) -> None:
    with pytest.raises(MtkitError) as caught:
        split_pair(given, ("", ""))
    assert caught.value.hint == "for example --test-set wmt14/full:en-de"


def test_a_recipe_says_how_files_are_scored_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    override = ["evaluation.lowercase=true"]
    without = load_scoring("", override)
    assert without == Scoring(Evaluation(lowercase=True))
    with_recipe = load_scoring("phrasebook-en-de", override)
    assert (with_recipe.source_language, with_recipe.target_language) == ("en", "de")
    assert with_recipe.settings.lowercase
    # What stands in `evaluation` is said of the files, whatever the recipe translates into.
    override = ["evaluation.language=pt"]
    assert load_scoring("phrasebook-en-de", override).target_language == "pt"
    assert load_scoring("", override).target_language == "pt"


def test_a_treebank_has_as_many_trees_as_hypothesis_as_it_has_as_reference(tmp_path: Path) -> None:
    wide, flat = tmp_path / "wide.mrg", tmp_path / "flat.mrg"
    wide.write_text("(S (NP (NN dogs))\n   (VP (VBP bark)))\n\n(S (NP (NN cats)))\n")
    flat.write_text("(S (NP (NN dogs)) (VP (VBP bark)))\n(S (NP (NN cats)))\n")
    scoring = Scoring(Evaluation(metrics=("parseval",)))
    for hypothesis in (wide, flat):
        for reference in (wide, flat):
            scored = score_files([hypothesis], scoring, references=[reference])
            assert scored.evaluated.num_sentences == 2
            assert scored.evaluated.systems[0].scores[0].value == 100.0
    # A sentence without a tree is a blank line.
    flat.write_text("\n(S (NP (NN cats)))\n")
    scored = score_files([flat], scoring, references=[wide])
    assert scored.evaluated.num_sentences == 2
    flat.write_text("(S (NP (NN cats)\n")
    with pytest.raises(MtkitError, match="has 1 lines, but"):
        score_files([flat], scoring, references=[wide])
