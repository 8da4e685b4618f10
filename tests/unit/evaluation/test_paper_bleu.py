"""Perl itself, sacremoses and sacreBLEU put together by hand are the oracles."""

import shutil
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu import corpus_bleu
from sacremoses import MosesTokenizer

from mtkit.errors import MtkitError
from mtkit.evaluation.paper_bleu import make_punctuation_plain, paper_bleu, split_compounds

from .real_text import read_reference, read_system

needs_perl = pytest.mark.skipif(shutil.which("perl") is None, reason="there is no perl")


def split_by_perl(lines: list[str]) -> list[str]:
    """Returns what the one-liner of tensor2tensor and fairseq makes of the lines."""
    program = r"s{(\S)-(\S)}{$1 ##AT##-##AT## $2}g"
    text = "".join(f"{line}\n" for line in lines).encode()
    done = subprocess.run(["perl", "-ple", program], input=text, capture_output=True, check=True)
    return done.stdout.decode().split("\n")[:-1]


def test_compounds_by_hand() -> None:
    # From https://nlp.stanford.edu/projects/nmt: "rich-text format".
    assert split_compounds(["rich-text format", "no - hyphen -", ""]) == [
        "rich ##AT##-##AT## text format",
        "no - hyphen -",
        "",
    ]


@needs_perl
def test_a_match_that_overlaps_another_is_left_as_perl_leaves_it() -> None:
    lines = ["a-b-c", "a-ß-c", "10-7-2017", "--", "a--b", "-a-", "a-\u00a0-b", "Ost-West-Dialog"]
    assert split_compounds(lines) == split_by_perl(lines)
    # What perl 5.36 says, for whoever has none.
    assert split_compounds(lines[:2]) == [
        "a ##AT##-##AT## b-c",
        "a ##AT##-##AT## ß ##AT##-##AT## c",
    ]


@needs_perl
def test_compounds_of_any_text_are_split_as_perl_does() -> None:
    # One process for all examples.
    lines: list[str] = []

    @given(st.text("ab-ßé–\u00a0\u2003\u3000 \t\v\f\x1c\x85字", max_size=12))
    def collect(line: str) -> None:
        lines.append(line)

    collect()
    assert split_compounds(lines) == split_by_perl(lines)


def test_by_hand() -> None:
    # Tokenised, a hyphenated word is one token: 3 of 4 unigrams match, 2 of 3 bigrams, 1 of 2
    # trigrams and no 4-gram: 0. Split, "b-x" is three of six tokens: 5 of 6 unigrams, 4 of 5
    # bigrams, 3 of 4 trigrams, 2 of 3 4-grams.
    plain, split, quotes = paper_bleu(["a c d b-x"], [["a c d b-y"]], language="de", tokenized=True)
    assert plain.value == 0.0
    assert split.value == pytest.approx(100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25)
    assert quotes.value == split.value
    assert [score.name for score in (plain, split, quotes)] == [
        "tokenised BLEU",
        "tokenised BLEU, compounds split",
        "tokenised BLEU, compounds split, quotes plain",
    ]
    assert "compound_split_bleu.sh" in split.signature
    assert "get_ende_bleu.sh" in quotes.signature


def test_quotes_by_hand() -> None:
    assert make_punctuation_plain([["„Ja“, »nein« …", "‚x’ ist’s"]]) == [
        ['"Ja", "nein" ...', "'x' ist's"]
    ]


def test_quotes_count_in_the_last_variant_alone() -> None:
    reference = "Er sagte „ ja “ zu uns allen ."
    for hypothesis in (
        'Er sagte " ja " zu uns allen .',
        "Er sagte &quot; ja &quot; zu uns allen .",
    ):
        scores = paper_bleu([hypothesis], [[reference]], language="de", tokenized=True)
        assert [score.value < 99 for score in scores] == [True, True, False]


def test_only_german_has_compounds_to_split() -> None:
    for language, count in (("de", 3), ("de_AT", 3), ("deu_Latn", 3), ("fr", 1), ("en-GB", 1)):
        assert len(paper_bleu(["a"], [["a"]], language=language)) == count


def test_lowercased_as_perls_lc_does_bytes() -> None:
    # A to Z, but not Ä: multi-bleu.perl reads bytes.
    [one, *_] = paper_bleu(["A b c D"], [["a B C d"]], language="de", lowercase=True)
    assert one.value == pytest.approx(100)
    assert one.name == "tokenised BLEU, A-Z lowercased"
    [one, *_] = paper_bleu(["Ä b c d e"], [["ä b c d e"]], language="de", lowercase=True)
    # 4 of 5, 3 of 4, 2 of 3, 1 of 2
    assert one.value == pytest.approx(100 * (1 / 5) ** 0.25)


def test_no_break_spaces_part_no_words() -> None:
    # As perl splits bytes: five words against four.
    [one] = paper_bleu(["a b c d\u00a0e"], [["a b c d e"]], language="fr", tokenized=True)
    assert one.value == 0.0
    [one] = paper_bleu(["a b c d\u00a0e"], [["a b c d\u00a0e"]], language="fr", tokenized=True)
    assert one.value == pytest.approx(100)


@pytest.mark.parametrize("system", ["uedin-nmt", "online-B", "PROMT-Rule-based"])
@pytest.mark.parametrize("tokenized", [True, False])
def test_on_wmt17(system: str, tokenized: bool) -> None:
    texts = [read_system(system)[:300], read_reference()[:300]]
    moses = MosesTokenizer("de")
    # The quotes of this text; other punctuation that get_ende_bleu.sh makes plain, likewise.
    marks = {**dict.fromkeys("„“”»«", '"'), **dict.fromkeys("‚‘’›‹", "'"), "…": "...", "％": "%"}
    plain = [[line.translate(str.maketrans(marks)) for line in lines] for lines in texts]
    cut, plain_cut = (
        [[str(moses.tokenize(line, return_str=True)) for line in lines] for lines in both]
        for both in (texts, plain)
    )
    split = split_by_perl if shutil.which("perl") else split_compounds
    hypotheses, reference = cut if tokenized else texts
    found = paper_bleu(hypotheses, [reference], language="de", tokenized=tokenized)
    expected = [
        corpus_bleu(hypothesis, [target], tokenize="none", smooth_method="none", force=True).score
        for hypothesis, target in (cut, map(split, cut), map(split, plain_cut))
    ]
    assert [score.value for score in found] == pytest.approx(expected, abs=0.01)


# multi-bleu.perl (mosesdecoder 31473d8) on what sacremoses 0.2.0 had tokenised, all 3,004 lines: it
# printed these digits.
@pytest.mark.parametrize(("system", "expected"), [("online-B", ["26.37", "26.70", "26.70"])])
def test_multi_bleu_perl(system: str, expected: list[str]) -> None:
    found = paper_bleu(read_system(system), [read_reference()], language="de")
    assert [f"{score.value:.2f}" for score in found] == expected


def test_unequal_counts_and_nothing_at_all() -> None:
    with pytest.raises(MtkitError, match="3 hypotheses, but 2 references"):
        paper_bleu(["a"] * 3, [["a"] * 2], language="de")
    with pytest.raises(MtkitError, match="no sentences"):
        paper_bleu([], [[]], language="de")
    with pytest.raises(MtkitError, match="no references"):
        paper_bleu(["a"], [], language="de")


def test_missing_sacremoses_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(MtkitError, match="needs the package sacremoses") as fault:
        paper_bleu(["a"], [["a"]], language="eo")
    assert fault.value.hint == "in the folder that holds mtkit's code: pip install '.[punctuation]'"


@pytest.mark.parametrize("language", ["", "German"])
def test_a_language_must_be_known(language: str) -> None:
    with pytest.raises(MtkitError, match="needs a language code") as caught:
        paper_bleu(["a"], [["a"]], language=language)
    assert "evaluation.language=de" in caught.value.hint
