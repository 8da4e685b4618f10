from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.text.glossary import MAX_TERMS, Glossary, Term, read_glossary


def read(tmp_path: Path, content: str | bytes):
    path = tmp_path / "terms.tsv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_glossary(path)


def find(text: str, *terms: tuple[str, str] | Term) -> list[tuple[str, list[str]]]:
    glossary = Glossary([term if isinstance(term, Term) else Term(*term) for term in terms])
    return [
        (text[slice(*found.span)], [term.target for term in found.terms])
        for found in glossary.find(text)
    ]


def test_columns_may_be_named_or_not(tmp_path):
    expected = (
        Term("cat", "Katze"),
        Term("US", "USA", is_case_sensitive=True),
        Term("car", "PKW", is_forbidden=True),
        Term("IT", "ES", is_case_sensitive=True, is_forbidden=True),
    )
    plain = "cat\tKatze\r\n\r\nUS\tUSA\tcase-sensitive\r\ncar\tPKW\tforbidden\n"
    plain += "IT\tES\tforbidden\tcase_sensitive\n"
    assert read(tmp_path, plain).terms == expected
    named = "Source\tTarget\tForbidden\tcase sensitive\n"
    named += "cat\tKatze\nUS\tUSA\tno\tyes\ncar\tPKW\tyes\nIT\tES\t1\tTRUE"
    assert read(tmp_path, b"\xef\xbb\xbf" + named.encode()).terms == expected


def test_a_target_that_is_wanted_and_forbidden_is_noted(tmp_path):
    notes = read(tmp_path, "man\tMensch\nman\tMensch\tforbidden\ncat\tKatze\n").notes
    assert [note.partition(": ")[2] for note in notes] == [
        "'Mensch' is both the target of 'man' and forbidden"
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("cat\tKatze\ndog\n", "terms.tsv:2: one column, expected source and target"),
        ("cat\t \n", "terms.tsv:1: an empty target"),
        ("\tKatze\n", "terms.tsv:1: an empty source"),
        ("cat\tKatze\tforbiden\n", "unknown flag 'forbiden' (did you mean 'forbidden'?)"),
        ("target\tsource\nKatze\tcat\n", "terms.tsv:1: the source is the first column"),
        ("source\ttarget\tforbiden\n", "unknown column 'forbiden' (did you mean"),
        ("source\ttarget\tforbidden\ncat\tKatze\tmaybe\n", ":2: forbidden is 'maybe', expected"),
        ("cat\tKatze\tforbidden\tcase_sensitive\tx\n", ":1: 5 columns, expected 4 at most"),
        ("source\ttarget\ncat\tKatze\tx\n", ":2: 3 columns, expected 2 at most"),
        ("cat\tKatze\n" + "x" * 201 + "\ty\n", ":2: a source of 201 characters, expected 200"),
        (b"cat\tKatze\nb\xfccher\tbooks\n", ":2: invalid UTF-8"),
        (b"cat\tKat\0ze\n", ":1: a null character"),
        ("\n \t \n", "no terms in it"),
        ("", "no terms in it"),
    ],
)
def test_faults_are_told_with_their_line(tmp_path, content, message):
    with pytest.raises(MtkitError) as caught:
        read(tmp_path, content)
    assert message in str(caught.value)


def test_a_file_that_isn_t_there(tmp_path):
    with pytest.raises(MtkitError, match="no such glossary"):
        read_glossary(tmp_path / "none.tsv")


def test_another_target_is_told_and_the_first_counts(tmp_path):
    content = "cat\tKatze\nCat\tKater\ncat\tKatze\ncat\tHund\tforbidden\ncat\tMaus\tforbidden\n"
    found = read(tmp_path, content)
    assert [term.target for term in found.terms] == ["Katze", "Hund", "Maus"]
    (note,) = found.notes
    assert "terms.tsv:2: 'Cat' has another target on line 1, 'Katze', which is used" in note


def test_the_longest_term_of_whole_words_wins():
    terms = [("house", "Haus"), ("house boat", "Hausboot"), ("boat trip", "Bootsfahrt")]
    assert find("A house  boat trip, Houses and a HOUSE.", *terms) == [
        ("house  boat", ["Hausboot"]),
        ("HOUSE", ["Haus"]),
    ]
    # Two words that are joined are another; a genitive isn't.
    assert find("in-house, house-warming, the house's roof", *terms) == [("house", ["Haus"])]
    assert find("house boa", *terms) == [("house", ["Haus"])]


def test_capitals_matter_where_a_term_says_so():
    us = Term("US", "USA", is_case_sensitive=True)
    assert find("They told us of the US.", us) == [("US", ["USA"])]
    # What is said of this spelling goes before what is said of any.
    assert find("us, US", ("us", "uns"), us) == [("us", ["uns"]), ("US", ["USA"])]


def test_forbidden_targets_stand_beside_the_wanted_one():
    terms = [Term("car", "PKW", is_forbidden=True), Term("car", "Auto")]
    assert find("the car", *terms) == [("car", ["Auto", "PKW"])]


def test_scripts_without_spaces_and_forms_of_unicode():
    assert find("我爱东京塔。", ("东京", "Tokyo"), ("东京塔", "Tokyo Tower")) == [
        ("东京塔", ["Tokyo Tower"])
    ]
    assert find("un cafe\u0301 noir", ("café", "coffee")) == [("cafe\u0301", ["coffee"])]


def test_a_hundred_thousand_terms_are_read_and_no_more(tmp_path):
    lines = "".join(f"word{number} of it\tWort{number}\n" for number in range(MAX_TERMS))
    glossary = Glossary(read(tmp_path, lines).terms)
    (found,) = glossary.find("This is word99999 of it.")
    assert found.terms[0].target == "Wort99999"
    with pytest.raises(MtkitError, match=r":100001: more than 100,000 terms"):
        read(tmp_path, lines + "one\tmore\n")
