"""Tab-separated text."""

from pathlib import Path

import pytest

from mtkit.data.sources.corpora import read_blocks
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import PairedFileCorpus, PairedFileTrainingCorpus

from ....corpus_rows import decode_block


def corpus_of(folder: Path, content: str | bytes, **columns) -> PairedFileCorpus:
    path = folder / "text.tsv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return PairedFileCorpus(path=path, **columns)


def test_columns_are_counted_as_cut_counts_them(tmp_path: Path, pairs_of) -> None:
    # printf 'a\tb\tc\n' | cut -f 1,3
    content = "a\tb\tc\nd\te\tf\n"
    assert pairs_of(corpus_of(tmp_path, content)) == [("a", "b"), ("d", "e")]
    columns = {"source_column": 3, "target_column": 1}
    assert pairs_of(corpus_of(tmp_path, content, **columns)) == [("c", "a"), ("f", "d")]
    assert pairs_of(corpus_of(tmp_path, content, target_column=3)) == [("a", "c"), ("d", "f")]


def test_columns_are_found_by_name_in_the_first_line(tmp_path: Path, pairs_of) -> None:
    content = "\ufeffde\tscore\ten\r\nein\t1\tone\r\nzwei\t2\ttwo\r\n"
    columns = {"source_column": "en", "target_column": "de"}
    assert pairs_of(corpus_of(tmp_path, content, **columns)) == [("one", "ein"), ("two", "zwei")]


def test_a_quote_is_text(tmp_path: Path, pairs_of) -> None:
    assert pairs_of(corpus_of(tmp_path, '"a"\t"b\n')) == [('"a"', '"b')]


def test_ends_of_lines_and_blank_lines(tmp_path: Path, pairs_of) -> None:
    pairs = pairs_of(corpus_of(tmp_path, "a\tb\r\n\n\tb\nc\t\r\n \nd\te"))
    assert pairs == [("a", "b"), ("", ""), ("", "b"), ("c", ""), ("", ""), ("d", "e")]


def test_a_line_with_too_few_columns(tmp_path: Path, blocks_of) -> None:
    blocks = blocks_of(corpus_of(tmp_path, "a\tb\nc\td\ne\tf\ng h\n"))
    with pytest.raises(MtkitError, match=r"text\.tsv:4: 1 tab-separated column, but column 2"):
        decode_block(blocks[1], drop_invalid=True)


def test_a_line_with_more_columns_than_names(tmp_path: Path, pairs_of) -> None:
    names = {"source_column": "en", "target_column": "de"}
    corpus = corpus_of(tmp_path, "en\tde\na\tä\t\nb\tx\tc\n", **names)
    with pytest.raises(MtkitError, match=r"text\.tsv:3: 3 tab-separated columns, but .* names 2"):
        pairs_of(corpus)
    skipping = PairedFileTrainingCorpus(path=corpus.path, **names, skip="3")
    assert pairs_of(skipping) == [("a", "ä")]
    assert pairs_of(corpus_of(tmp_path, "a\tä\tnote\nb\tx\n")) == [("a", "ä"), ("b", "x")]


def test_all_broken_lines_of_a_block_are_counted_and_the_first_are_named(
    tmp_path: Path,
) -> None:
    lines = ["a\tb", *["broken"] * 7, "", "c\td"]
    (block,) = read_blocks(
        corpus_of(tmp_path, "\n".join(lines) + "\n"),
        index=0,
        rows_per_block=100,
        languages=("en", "de"),
    )
    with pytest.raises(MtkitError) as caught:
        decode_block(block, drop_invalid=True)
    assert caught.value.message.endswith(
        "text.tsv:2: 1 tab-separated column, but column 2 is needed; 7 of 10 lines are broken: "
        "2, 3, 4, 5, 6, ..."
    )


def test_the_line_of_names_counts_as_a_line_of_the_file(tmp_path: Path, blocks_of) -> None:
    content = b"en\tde\n1\t2\n3\t4\n5\t\xff\n"
    corpus = corpus_of(tmp_path, content, source_column="en", target_column="de")
    last = blocks_of(corpus)[1]
    assert (last.first, last.num_rows) == (2, 1)
    with pytest.raises(MtkitError, match=r"text\.tsv:4: byte 3 of the line is invalid UTF-8"):
        decode_block(last, drop_invalid=False)
    assert decode_block(last, drop_invalid=True) == (["5"], ["\ufffd"], 1)


def test_a_name_that_is_not_there(tmp_path: Path, blocks_of) -> None:
    corpus = corpus_of(tmp_path, "english\tgerman\na\tb\n", source_column="englsh")
    with pytest.raises(MtkitError) as caught:
        blocks_of(corpus)
    assert caught.value.message == (
        f"{tmp_path / 'text.tsv'}:1: no column 'englsh' in the first line, which has 'english', "
        "'german' (did you mean 'english'?)"
    )


def test_one_column_for_both(tmp_path: Path, blocks_of) -> None:
    corpus = corpus_of(tmp_path, "a\tb\nc\td\n", source_column="b")
    with pytest.raises(MtkitError, match="are both column 2"):
        blocks_of(corpus)


def test_nothing_below_the_line_of_names(tmp_path: Path, blocks_of) -> None:
    corpus = corpus_of(tmp_path, "en\tde\n", source_column="en", target_column="de")
    with pytest.raises(MtkitError, match="no lines of text in it"):
        blocks_of(corpus)


def test_max_pairs(tmp_path: Path, blocks_of) -> None:
    path = corpus_of(tmp_path, "a\tb\nc\td\ne\tf\ng\n").path
    blocks = blocks_of(PairedFileTrainingCorpus(path=path, max_pairs=3))
    assert [block.num_rows for block in blocks] == [2, 1]
    assert blocks[1].content[0].read() == b"e\tf\n"


@pytest.mark.parametrize(
    "names", ["de\ten", "EN\tDE", "\ufeffen\tde", "\ufeffde\ten\r", "German\tEnglish"]
)
def test_a_line_of_names_that_is_read_as_text_is_warned_of(
    tmp_path: Path, pairs_of, capsys, names: str
) -> None:
    pairs = pairs_of(corpus_of(tmp_path, f"{names}\nein\tone\n"))
    assert len(pairs) == 2
    # In the order of the recipe's languages, as they are written.
    english, german = sorted(names.strip("\ufeff\r").split("\t"), key=str.lower, reverse=True)
    if "German" in names:
        english, german = german, english
    assert f'source_column = "{english}", target_column = "{german}"' in capsys.readouterr().err
    pairs_of(corpus_of(tmp_path, "ein\tone\nde\ten\n"))
    assert capsys.readouterr().err == ""
