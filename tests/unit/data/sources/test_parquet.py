"""Parquet files."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mtkit.errors import MtkitError
from mtkit.recipe.corpora import PairedFileCorpus, PairedFileTrainingCorpus

from ....corpus_rows import decode_block


def corpus_of(folder: Path, columns: dict[str, object], **keys) -> PairedFileCorpus:
    pq.write_table(pa.table(columns), folder / "text.parquet", row_group_size=3)
    return PairedFileCorpus(path=folder / "text.parquet", **keys)


def test_the_translation_column(tmp_path: Path, pairs_of) -> None:
    rows = [
        {"en": "one\ntwo", "de": "eins"},
        None,
        {"en": None, "de": "drei"},
        {"en": "", "de": ""},
    ]
    corpus = corpus_of(tmp_path, {"translation": rows, "en": ["x"] * 4, "de": ["y"] * 4})
    assert pairs_of(corpus) == [("one two", "eins"), ("", ""), ("", "drei"), ("", "")]


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())],
)
def test_columns_of_every_kind_of_text(tmp_path: Path, pairs_of, kind: pa.DataType) -> None:
    texts = pa.array(["a", None, "\ufeffa", "ä\r\n\u2028"], pa.string()).cast(kind)
    corpus = corpus_of(
        tmp_path,
        {"source": texts, "score": [1, 2, 3, 4], "target": pa.nulls(4)},
        source_column="source",
        target_column="target",
    )
    assert pairs_of(corpus) == [("a", ""), ("", ""), ("\ufeffa", ""), ("ä \u2028", "")]


def test_a_block_may_span_row_groups(tmp_path: Path, blocks_of) -> None:
    corpus = corpus_of(tmp_path, {"en": list("abcdefgh"), "de": list("ABCDEFGH")})
    blocks = blocks_of(corpus, pairs_per_block=5)
    assert [(block.first, b"".join(block.content[0])) for block in blocks] == [
        (0, b"abcde"), (5, b"fgh"),
    ]  # fmt: skip
    first = PairedFileTrainingCorpus(path=corpus.path, max_pairs=4)
    assert [block.num_rows for block in blocks_of(first, pairs_per_block=3)] == [3, 1]


def test_a_column_that_is_missing_or_holds_no_text(tmp_path: Path, blocks_of) -> None:
    with pytest.raises(MtkitError, match=r"or columns 'en' and 'de', found columns 'de', 'n'$"):
        blocks_of(corpus_of(tmp_path, {"de": ["a"], "n": [1]}))
    columns = {"source_column": "de", "target_column": "n"}
    with pytest.raises(MtkitError, match="expected text in 'n', found int64"):
        blocks_of(corpus_of(tmp_path, {"de": ["a"], "n": [1]}, **columns))


def test_text_that_is_no_utf8_is_told_by_row(tmp_path: Path, blocks_of) -> None:
    # Nothing checks what a file says is text.
    texts = pa.array([b"a", b"b", b"c\xff"]).view(pa.string())
    last = blocks_of(corpus_of(tmp_path, {"en": texts, "de": ["A", "B", "C"]}))[1]
    with pytest.raises(
        MtkitError, match=r"text\.parquet, row 3: byte 2 of the text is invalid UTF-8"
    ):
        decode_block(last, drop_invalid=False)
    assert decode_block(last, drop_invalid=True) == (["c\ufffd"], ["C"], 1)


@pytest.mark.parametrize("damage", ["cut", "no Parquet", "overwritten"])
def test_a_damaged_file(tmp_path: Path, blocks_of, damage: str) -> None:
    lines = [f"line {number}" for number in range(1_000)]
    corpus = corpus_of(tmp_path, {"en": lines, "de": lines})
    whole = corpus.path.read_bytes()
    corpus.path.write_bytes(
        {
            "cut": whole[:-20],
            "no Parquet": b"text\n" * 20,
            "overwritten": whole[:4] + b"\xff" * 500 + whole[504:],
        }[damage]
    )
    with pytest.raises(MtkitError, match=r"text\.parquet: damaged Parquet file: "):
        blocks_of(corpus)


def test_no_rows(tmp_path: Path, blocks_of) -> None:
    text = pa.array([], pa.string())
    with pytest.raises(MtkitError, match="no rows in it"):
        blocks_of(corpus_of(tmp_path, {"en": text, "de": text}))
