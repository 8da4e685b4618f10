"""No false alarm on real translations; every fault found where it is planted in them."""

from collections.abc import Callable

import pytest
from sacremoses import MosesTokenizer

from mtkit.evaluation.remarks.find_remarks import find_remarks

from ..real_text import read_flores, read_reference, read_system

OTHER_SYSTEMS = (
    "C-3MA",
    "FBK",
    "KIT",
    "LIUM-NMT",
    "LMU-nmt-reranked",
    "LMU-nmt-single",
    "RWTH-nmt-ensemble",
    "SYSTRAN",
    "TALP-UPC",
    "online-B",
    "online-F",
    "online-G",
    "xmu",
)
LANGUAGES = ("en", "de", "fr", "zh", "ja")

Change = Callable[[list[str]], list[str]]


def kinds_of(hypotheses: list[str], references: list[str], **options: object) -> list[str]:
    settings = {"tokenize": "auto", "target_language": "de"} | options
    return [
        remark.kind
        for remark in find_remarks(hypotheses, [references], **settings)  # type: ignore[arg-type]
    ]


def moses(lines: list[str]) -> list[str]:
    tokenizer = MosesTokenizer("de")
    return [str(tokenizer.tokenize(line, return_str=True)) for line in lines]


@pytest.mark.parametrize(
    "system",
    ["online-A", "uedin-nmt", "PROMT-Rule-based"]
    + [pytest.param(name, marks=pytest.mark.patient) for name in OTHER_SYSTEMS],
)
def test_no_false_alarm_on_wmt17(system: str) -> None:
    # online-A's file does begin with a byte order mark.
    expected = ["byte-order-mark"] if system == "online-A" else []
    for tokenizer in ("auto", "13a", "intl"):
        assert kinds_of(read_system(system), read_reference(), tokenize=tokenizer) == expected


@pytest.mark.parametrize("system", ["uedin-nmt", "PROMT-Rule-based"])
def test_no_false_alarm_on_the_first_lines_alone(system: str) -> None:
    for num_lines in (1, 3, 10, 30, 100):
        hypotheses, references = read_system(system)[:num_lines], read_reference()[:num_lines]
        assert kinds_of(hypotheses, references) == []


@pytest.mark.parametrize("target", LANGUAGES)
def test_no_false_alarm_on_flores(target: str) -> None:
    # The references stand for a very good system: one word is left out of each long sentence.
    references = read_flores(target)
    hypotheses = [line[:20] + line[24:] for line in references]
    for source in LANGUAGES:
        if source != target:
            sources = read_flores(source)
            assert kinds_of(hypotheses, references, sources=sources, target_language=target) == []


def test_no_false_alarm_on_tokenised_text_scored_as_it_is() -> None:
    hypotheses, references = moses(read_system("KIT")[:500]), moses(read_reference()[:500])
    assert kinds_of(hypotheses, references, tokenize="none") == []


def cut_words(lines: list[str]) -> list[str]:
    return [" ".join(line.split()[:15]) for line in lines]


def lose_a_line(lines: list[str]) -> list[str]:
    return [*lines[:400], *lines[401:], "Ende."]


def lose_a_line_and_repeat_another(lines: list[str]) -> list[str]:
    return [*lines[:400], *lines[401:700], lines[699], *lines[700:]]


@pytest.mark.parametrize(
    ("change", "expected", "words"),
    [
        (moses, ["one-side-tokenized"], "The hypotheses look tokenised"),
        (
            lambda lines: [line.replace("ei", "e@@ i") for line in lines],
            ["pieces"],
            "hypotheses contain",
        ),
        (
            lambda lines: ["▁" + line.replace(" ", " ▁") for line in lines],
            ["pieces"],
            "spm_decode",
        ),
        (lambda lines: ["", *lines[1:50], "", *lines[51:]], ["empty"], "the first in line 1."),
        (cut_words, ["open-ended", "cut"], "exactly 15 words long"),
        (
            lambda lines: [line[:150] for line in lines],
            ["open-ended", "cut"],
            "exactly 150 characters long",
        ),
        (
            lambda lines: [line[: len(line) // 2] for line in lines],
            ["length", "open-ended"],
            "cut off or incomplete",
        ),
        (lambda lines: [line + line for line in lines], ["length"], "repeat themselves"),
        (lose_a_line, ["shifted"], "near line 401"),
        (lose_a_line_and_repeat_another, ["shifted"], "Hypotheses 401 to 69"),
        (lambda lines: [*lines[1:], lines[0]], ["shifted"], "next line's reference"),
        (lambda lines: ["Neu.", *lines[:-1]], ["shifted"], "previous line's reference"),
        (lambda lines: ["\ufeff" + lines[0], *lines[1:]], ["byte-order-mark"], "byte order mark"),
        (lambda lines: [line + "\r" for line in lines], ["carriage-return"], "1,000 of 1,000"),
        (
            lambda lines: [line.lower() for line in lines],
            ["lowercased"],
            "but 0% of the hypotheses",
        ),
        (
            lambda lines: [line.replace('"', "&quot;").replace("-", " @-@ ") for line in lines],
            ["escaped"],
            "'&quot;'",
        ),
    ],
)
@pytest.mark.parametrize("system", ["uedin-nmt", "online-G"])
def test_a_fault_planted_in_a_systems_output(
    system: str, change: Change, expected: list[str], words: str
) -> None:
    hypotheses, references = change(read_system(system)[:1000]), read_reference()[:1000]
    remarks = find_remarks(hypotheses, [references], tokenize="auto", target_language="de")
    assert [remark.kind for remark in remarks] == expected
    assert any(words in remark.text for remark in remarks)


def test_both_sides_tokenised() -> None:
    hypotheses, references = moses(read_system("KIT")[:300]), moses(read_reference()[:300])
    for tokenizer in ("auto", "13a", "intl"):
        [remark] = find_remarks(hypotheses, [references], tokenize=tokenizer)
        assert remark.kind == "tokenized"
        assert "--set evaluation.tokenize=none" in remark.text


def test_references_alone_tokenised() -> None:
    [remark] = find_remarks(
        read_system("KIT")[:300], [moses(read_reference()[:300])], tokenize="none"
    )
    assert remark.kind == "one-side-tokenized"
    assert remark.text.startswith("The references look tokenised")


def test_plain_text_that_nothing_tokenises() -> None:
    [remark] = find_remarks(read_system("KIT"), [read_reference()], tokenize="none")
    assert remark.kind == "plain"
    assert "--set evaluation.tokenize=auto" in remark.text


def test_copies() -> None:
    english, german = read_flores("en"), read_flores("de")
    system = [line[:20] + line[24:] for line in german]
    assert kinds_of(german, german) == ["copied-reference"]
    half = english[:500] + system[500:]
    assert "copied-source" in kinds_of(half, german, sources=english)
    assert kinds_of(system, english, sources=english)[0] == "copied-source"


@pytest.mark.parametrize(
    ("hypothesis", "reference"), [("en", "de"), ("de", "fr"), ("fr", "en"), ("en", "zh")]
)
def test_another_language(hypothesis: str, reference: str) -> None:
    found = kinds_of(read_flores(hypothesis), read_flores(reference), target_language=reference)
    assert found[0] == "language"


def test_the_language_of_the_sources_is_named() -> None:
    german, french = read_flores("de"), read_flores("fr")
    # Other English text than the sources, so that no line equals its source.
    english = read_flores("en")[::-1]
    for hypotheses, references, name in ((english, german, "hypoth"), (french, english, "refer")):
        [remark] = find_remarks(hypotheses, [references], sources=read_flores("en"), tokenize="13a")
        assert f"the {name}" in remark.text
        assert "in the sources' language" in remark.text


def test_references_in_a_script_that_the_target_language_is_not_written_in() -> None:
    german = read_flores("de")
    system = [line[:20] + line[24:] for line in german]
    assert "language" in kinds_of(system, german, target_language="zh", tokenize="13a")


@pytest.mark.parametrize(
    ("language", "tokenizer", "advice"),
    [
        ("zh", "13a", "zh"),
        ("ja", "13a", "ja-mecab"),
        ("zh", "intl", "zh"),
        ("de", "zh", "13a"),
        ("en", "ja-mecab", "13a"),
        ("fr", "ko-mecab", "13a"),
        ("ja", "zh", "ja-mecab"),
        ("zh", "ja-mecab", "zh"),
    ],
)
def test_a_tokeniser_for_another_script(language: str, tokenizer: str, advice: str) -> None:
    references = read_flores(language)
    hypotheses = [line[:20] + line[24:] for line in references]
    [remark] = find_remarks(hypotheses, [references], tokenize=tokenizer)
    assert remark.kind == "tokenizer"
    assert f"--set evaluation.tokenize={advice}" in remark.text


def test_a_tokeniser_for_any_script() -> None:
    for language in LANGUAGES:
        references = read_flores(language)
        hypotheses = [line[:20] + line[24:] for line in references]
        assert kinds_of(hypotheses, references, tokenize="flores200", target_language="") == []


@pytest.mark.parametrize(("language", "kinds"), [("de", ["tokenizer"]), ("zh", []), ("ja", [])])
def test_characters_are_for_scripts_without_spaces(language: str, kinds: list[str]) -> None:
    references = read_flores(language)
    hypotheses = [line[:20] + line[24:] for line in references]
    assert kinds_of(hypotheses, references, tokenize="char", target_language="") == kinds


@pytest.mark.parametrize(("scored", "against"), [("ja", "zh"), ("zh", "ja")])
def test_japanese_and_chinese_are_told_apart(scored: str, against: str) -> None:
    hypotheses, references = read_flores(scored), read_flores(against)
    kinds = kinds_of(hypotheses, references, tokenize="char", target_language="")
    assert "language" in kinds


def test_a_lost_line_in_text_without_spaces() -> None:
    references = read_flores("zh")
    hypotheses = [line[:20] + line[24:] for line in references]
    hypotheses = [*hypotheses[:100], *hypotheses[101:], "。"]
    [remark] = find_remarks(hypotheses, [references], tokenize="zh")
    assert remark.kind == "shifted"
    assert "near line 101" in remark.text


def test_marks_of_machines_in_the_references_alone() -> None:
    references = read_reference()[:100]
    references[7] = "Das <unk> ist ein Haus."
    assert kinds_of(read_system("KIT")[:100], references) == ["exchanged"]
    # Both sides have some: nothing can be known.
    hypotheses = read_system("KIT")[:100]
    hypotheses[3] = "<unk> <unk>"
    assert kinds_of(hypotheses, references) == []


def test_exchanged_files_of_good_text_cannot_be_known() -> None:
    assert kinds_of(read_reference(), read_system("KIT")) == []


def test_case_that_is_not_regarded() -> None:
    hypotheses = [line.lower() for line in read_system("KIT")]
    assert kinds_of(hypotheses, read_reference(), lowercase=True) == []


def test_of_several_reference_sets_one_with_text_of_its_own_is_enough() -> None:
    references = [read_reference(), [""] * 3004]
    assert find_remarks(read_system("KIT"), references, tokenize="13a") == []


@pytest.mark.parametrize("lines", [[""], ["", "", ""], ["a"], ["."] * 40, ["1 2 3"] * 20])
def test_hardly_any_text(lines: list[str]) -> None:
    assert set(kinds_of(lines, lines)) <= {"copied-reference"}


def test_nothing_at_all() -> None:
    assert find_remarks([], [[]], tokenize="13a") == []


def test_unequal_counts() -> None:
    with pytest.raises(ValueError, match="shorter"):
        find_remarks(["a", "b"], [["a"]], tokenize="13a")
    with pytest.raises(ValueError, match="longer"):
        find_remarks(["a", "b"], [["a", "b"]], sources=["a"] * 3, tokenize="13a")
