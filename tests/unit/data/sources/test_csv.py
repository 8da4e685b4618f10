"""Comma-separated text: what spreadsheets write comes back."""

import csv
import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.data.sources.corpora import read_corpus_pairs, read_corpus_text
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import PairedFileCorpus, PairedFileTrainingCorpus
from mtkit.recipe.text_corpora import LabelledCorpus, TextTableCorpus

from ....corpus_rows import decode_block, read_rows


def corpus_of(folder: Path, content: str | bytes, name: str = "a.csv", **keys) -> PairedFileCorpus:
    raw = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return PairedFileTrainingCorpus(path=folder / name, **keys)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_quotes_and_separators(tmp_path: Path, pairs_of, separator: str, name: str) -> None:
    rows = [["id", "en", "de"], ["1", '"Yes", he said', "Ja; so"], ["2", "two\nlines", "a\tb"]]
    with (tmp_path / "written.csv").open("w", newline="", encoding="utf-8-sig") as stream:
        csv.writer(stream, delimiter=separator).writerows(rows)
    content = (tmp_path / "written.csv").read_bytes()
    corpus = corpus_of(tmp_path, content, name, source_column="en", target_column="de")
    assert pairs_of(corpus) == [('"Yes", he said', "Ja; so"), ("two lines", "a\tb")]
    numbered = corpus_of(tmp_path, content, name, source_column=2, target_column=3, max_pairs=2)
    assert pairs_of(numbered) == [("en", "de"), ('"Yes", he said', "Ja; so")]


LINES = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from(',;"'), max_size=9)


@given(pairs=st.lists(st.tuples(LINES, LINES), min_size=1, max_size=6))
def test_any_fields_come_back(tmp_path_factory, pairs: list[tuple[str, str]]) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, quoting=csv.QUOTE_ALL)
        writer.writerows([("first", "second"), *pairs])
    corpus = PairedFileCorpus(path=path, source_column="first", target_column="second")
    assert list(read_corpus_pairs(corpus, phrasebook_split="dev", languages=("en", "de"))) == pairs


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_separators_in_sentences_separate_nothing(
    tmp_path: Path, pairs_of, separator: str, quoting: int
) -> None:
    pairs = [
        ("Hello, world", "Hallo, Welt"),
        ("No, no, no, really; no", "Nein, nein, nein"),
        ("Good; better, best", "Gut; besser, am besten"),
        ("Tea", "Tee, bitte"),
    ]
    for rows in (pairs, pairs[:1]):
        with (tmp_path / "a.csv").open("w", newline="") as stream:
            csv.writer(stream, delimiter=separator, quoting=quoting).writerows(rows)
        assert pairs_of(PairedFileTrainingCorpus(path=tmp_path / "a.csv")) == rows


def test_a_separator_is_chosen_by_the_names_of_columns(tmp_path: Path, pairs_of) -> None:
    content = "en;de;note, author\nyes, it is;ja, das ist so;x, y\nno, no;nein, nein;x, z\n"
    corpus = corpus_of(tmp_path, content, source_column="en", target_column="de")
    assert pairs_of(corpus) == [("yes, it is", "ja, das ist so"), ("no, no", "nein, nein")]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_the_first_row_for_excel_names_the_separator(
    tmp_path: Path, pairs_of, separator: str, mark: str
) -> None:
    rows = f"{mark}sep={separator}\r\nen{separator}de\r\nyes{separator}ja\r\n"
    named = corpus_of(tmp_path, rows, source_column="en", target_column="de")
    assert pairs_of(named) == [("yes", "ja")]
    assert pairs_of(corpus_of(tmp_path, rows)) == [("en", "de"), ("yes", "ja")]


def test_rows_are_numbered_as_in_a_spreadsheet(tmp_path: Path, pairs_of, blocks_of) -> None:
    content = b"en,de\nyes,ja\n\nno,\xff\n"
    named = corpus_of(tmp_path, content, source_column="en", target_column="de")
    with pytest.raises(MtkitError, match=r"a\.csv, row 4: byte 1 of the text is invalid UTF-8"):
        pairs_of(named)
    blocks = [block.decode(drop_invalid=True) for block in blocks_of(named)]
    assert [number for rows in blocks for number in rows.numbers.tolist()] == [2, 3, 4]
    skipping = corpus_of(tmp_path, content, source_column="en", target_column="de", skip="3-4")
    assert pairs_of(skipping) == [("yes", "ja")]


@pytest.mark.parametrize("names", [{}, {"source_column": "en", "target_column": "de"}])
def test_utf_16_is_named(tmp_path: Path, pairs_of, names: dict[str, str]) -> None:
    content = "en\tde\r\nyes\tja\r\n".encode("utf-16")
    with pytest.raises(MtkitError, match=r"a\.csv:1: byte 1 ") as told:
        pairs_of(corpus_of(tmp_path, content, **names))
    assert "it is UTF-16; convert it: iconv" in told.value.hint


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('a,b\n"c,d\n', r"a\.csv, row 2: unexpected end of data"),
        ('a,b\n"c" d,e\n', r"a\.csv, row 2: ',' expected after '\"'"),
        ("a,b\nc\n", r"row 2: 1 column, .* is needed; a comma separates columns here"),
        (b"a,b\n\xff,c\n", r"a\.csv, row 2: byte 1 of the text is invalid UTF-8"),
        (b"", r"a\.csv: empty file"),
    ],
)
def test_faults_are_reported_by_row(tmp_path, pairs_of, content: str | bytes, message: str) -> None:
    with pytest.raises(MtkitError, match=message):
        pairs_of(corpus_of(tmp_path, content))


def test_the_encoding_of_a_csv_file_is_named(tmp_path: Path, pairs_of) -> None:
    for language, text, encoding in (
        ("de", "für schöne Straßen", "WINDOWS-1252"),
        ("pl", "zażółć gęślą jaźń", "WINDOWS-1250"),
        ("ja", "吾輩は猫である。名前はまだ無い。", "SHIFT_JIS"),
    ):
        rows = "yes,no\n" + 3 * f"yes,{text}\n"
        corpus = corpus_of(tmp_path, rows.encode(encoding))
        with pytest.raises(MtkitError, match=r"row 2: .*; also 2 other rows up to row 4") as told:
            pairs_of(corpus, target_language=language)
        assert told.value.hint == (
            f"it looks like {encoding}; convert it: "
            f"iconv -f {encoding} -t UTF-8 {tmp_path}/a.csv > {tmp_path}/a.utf8.csv"
        )


def test_the_first_faulty_row_is_named_whatever_its_column(tmp_path: Path, pairs_of) -> None:
    rows = b"yes,no\nyes,sch\xf6n\nna\xefve,no\n"
    with pytest.raises(MtkitError, match=r"row 2: byte 4 .*\(0xf6\); also 1 other row up to row 3"):
        pairs_of(corpus_of(tmp_path, rows))


def test_names_that_are_not_there(tmp_path: Path, pairs_of) -> None:
    corpus = corpus_of(tmp_path, "english,german\na,b\n", source_column="englsh")
    with pytest.raises(MtkitError, match=r"a\.csv:1: no column 'englsh'.*did you mean 'english'"):
        pairs_of(corpus)
    with pytest.raises(MtkitError, match="no rows in it"):
        pairs_of(corpus_of(tmp_path, "e,d\n", source_column="e", target_column="d"))


def test_a_first_row_that_names_the_languages_is_noticed(tmp_path: Path, pairs_of, capsys) -> None:
    assert pairs_of(corpus_of(tmp_path, "de;en\nja;yes\n"))[0] == ("de", "en")
    said = " ".join(capsys.readouterr().err.split())
    assert 'to use them: source_column = "en", target_column = "de"' in said
    pairs_of(corpus_of(tmp_path, "en,de\nyes,ja\n", source_column="en", target_column="de"))
    assert "looks like" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "source", "target"),
    [
        ("id,de,en", "en", "de"),
        ("Englisch,Deutsch,English", "English", "Deutsch"),
        ('"source","target"', "source", "target"),
        ("tgt,src", "src", "tgt"),
        ("English,German text,German", "English", "German"),
    ],
)
def test_other_names_of_columns_are_noticed_too(
    tmp_path: Path, pairs_of, capsys, names: str, source: str, target: str
) -> None:
    pairs_of(
        corpus_of(tmp_path, f"{names}\nx,y,z\n" if names.count(",") > 1 else f"{names}\nx,y\n")
    )
    said = " ".join(capsys.readouterr().err.split())
    wanted = f'source_column = "{source}", target_column = "{target}"'
    # Once, though a command opens a file several times.
    assert said.count(wanted) == 1
    pairs_of(corpus_of(tmp_path, "No,Nein\nx,y\n"))
    assert "looks like" not in capsys.readouterr().err


def test_invalid_utf8_can_be_dropped(tmp_path: Path, blocks_of) -> None:
    [block] = blocks_of(corpus_of(tmp_path, b"a,b\n\xff,c\n"))
    assert decode_block(block, drop_invalid=True) == (["a", "\ufffd"], ["b", "c"], 1)


def test_text_and_labels(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('name,body\nx,"one\ntwo"\nx,three\ny,four\n')
    corpus = TextTableCorpus(path=tmp_path / "t.csv", text_column="body", document_column="name")
    lines, documents = read_corpus_text(corpus)
    assert lines == ["one", "two", "three", "four"]
    assert (documents - documents[0]).tolist() == [0, 0, 0, 1]
    labelled = LabelledCorpus(path=tmp_path / "t.csv", text_column=2, label_column=1)
    assert [row.label for row in read_rows(labelled)] == ["name", "x", "x", "y"]


def test_a_broken_quote_in_the_header(tmp_path: Path, pairs_of) -> None:
    content = '"source"x,"target"\na,b\n'
    corpus = corpus_of(tmp_path, content, source_column="source", target_column="target")
    with pytest.raises(MtkitError, match=r"a\.csv, row 1: ") as no:
        pairs_of(corpus)
    assert "quote" in no.value.hint
