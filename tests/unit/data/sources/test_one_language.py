"""Text in one language: documents marked by hand are those that are read, in blocks of any size."""

import bz2
import gzip
import json
import lzma
import pickle
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.data.sources import blocks as blocks_module
from mtkit.data.sources.corpora import (
    OneLanguageCorpus,
    check_corpus,
    input_files,
    read_blocks,
    read_corpus_text,
    require_parallel,
)
from mtkit.data.sources.documents import DocumentCounter
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import TextTableTrainingCorpus, TextTrainingCorpus
from mtkit.recipe.text_corpora import Documents, TextCorpus, TextTableCorpus

BY_HAND = b"One.\nTwo.\n\nThree.\n \t\n\nFour.\nFive.\n"
"""Three documents where blank lines part them."""


def documents_of(corpus: OneLanguageCorpus, rows_per_block: int = 1000) -> list[list[str]]:
    """Lines of each document, read in blocks of so many rows."""
    counter, found = DocumentCounter(), []
    for block in read_blocks(corpus, index=0, rows_per_block=rows_per_block):
        # As it goes to another process.
        sentences = pickle.loads(pickle.dumps(block)).decode(drop_invalid=True)
        numbers = counter.number(0, sentences.documents)
        found += zip(numbers.tolist(), sentences.columns["text"], strict=True)
    assert [number for number, _ in found] == sorted(number for number, _ in found)
    grouped = [[line for _, line in group] for _, group in groupby(found, key=lambda row: row[0])]
    assert counter.num_documents == len(grouped)
    return grouped


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("rows_per_block", [1, 2, 3, 4, 5, 100])
@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ("blank-lines", [["One.", "Two."], ["Three."], ["Four.", "Five."]]),
        ("lines", [["One."], ["Two."], ["Three."], ["Four."], ["Five."]]),
        ("file", [["One.", "Two.", "Three.", "Four.", "Five."]]),
    ],
)
def test_what_parts_documents(
    tmp_path: Path, documents: Documents, expected: list[list[str]], rows_per_block: int
) -> None:
    path = write(tmp_path / "mono.txt", BY_HAND)
    corpus = TextCorpus(text=path, documents=documents)
    assert documents_of(corpus, rows_per_block) == expected
    lines, numbers = read_corpus_text(corpus)
    assert lines == [line for document in expected for line in document]
    assert len(set(numbers.tolist())) == len(expected)


LINES = st.lists(st.sampled_from(["", " ", "a", "b c", "\u3000", "ä"]), min_size=1, max_size=30)


@given(LINES, st.integers(1, 12))
def test_blank_lines_part_documents_wherever_blocks_begin(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], rows_per_block: int
) -> None:
    path = tmp_path_factory.mktemp("text") / "mono.txt"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    groups = groupby(lines, key=lambda line: bool(line.strip()))
    expected = [list(group) for has_text, group in groups if has_text]
    assert documents_of(TextCorpus(text=path), rows_per_block) == expected


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "mono.txt": bytes,
    "mono.de.gz": gzip.compress,
    "mono.bz2": bz2.compress,
    "mono.xz": lzma.compress,
    "mono.zst": lambda content: pa.compress(content, "zstd", asbytes=True),
}


@pytest.mark.parametrize("name", sorted(PACKED))
def test_compressed_text_is_read_as_its_name_says(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, PACKED[name](BY_HAND))
    assert len(documents_of(TextCorpus(text=path), 2)) == 3


def test_what_editors_leave_is_no_text(tmp_path: Path) -> None:
    content = "\ufeffEins\r\nzwei\r\n\r\ndrei\u2028vier\x0bfünf".encode()
    corpus = TextCorpus(text=write(tmp_path / "mono.txt", content))
    assert documents_of(corpus) == [["Eins", "zwei"], ["drei\u2028vier\x0bfünf"]]
    # A byte-order mark alone is a blank line.
    corpus = TextCorpus(text=write(tmp_path / "mark.txt", "\ufeff\r\neins\n".encode()))
    assert documents_of(corpus) == [["eins"]]


def test_a_block_is_bounded_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "BYTES_PER_BLOCK", 1_000)
    monkeypatch.setattr(blocks_module, "ROWS_PER_STEP", 2)
    path = write(tmp_path / "mono.txt", b"z" * 2_000 + b"\n" + b"y\n" * 101)
    corpus = TextCorpus(text=path, documents="file")
    found = list(read_blocks(corpus, index=3, rows_per_block=10_000))
    assert len(found) == 2
    assert {block.corpus for block in found} == {3}
    assert next(block.first for block in found) == 0
    assert [len(document) for document in documents_of(corpus, 10_000)] == [102]


def test_only_the_first_rows_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "mono.txt", BY_HAND)
    # Blank lines count.
    assert documents_of(TextTrainingCorpus(text=path, max_pairs=4), 3) == [
        ["One.", "Two."],
        ["Three."],
    ]
    table = write(tmp_path / "mono.tsv", b"a\nb\nc\n")
    assert documents_of(TextTableTrainingCorpus(path=table, text_column=1, max_pairs=2)) == [
        ["a"],
        ["b"],
    ]


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (b"", "empty file", "complete"),
        (b"ok\ncaf\xe9\n", r"mono\.txt:2: byte 4 of the line is invalid UTF-8", "WINDOWS-1252"),
        (b"\xff\xfeH\x00", r"mono\.txt:1: byte 1", "UTF-16"),
        (gzip.compress(b"text\n", mtime=0), r"mono\.txt:1: byte 2", r"mono\.txt\.gz"),
    ],
)
def test_what_is_no_text_is_told(tmp_path: Path, content: bytes, message: str, hint: str) -> None:
    corpus = TextCorpus(text=write(tmp_path / "mono.txt", content))
    with pytest.raises(MtkitError, match=message) as fault:
        read_corpus_text(corpus)
    assert hint.replace("\\", "") in fault.value.hint


def test_damage_is_told(tmp_path: Path) -> None:
    packed = gzip.compress(b"line\n" * 100_000)
    corpus = TextCorpus(text=write(tmp_path / "mono.gz", packed[: len(packed) // 2]))
    with pytest.raises(MtkitError, match=r"mono\.gz: damaged gzip file"):
        read_corpus_text(corpus)
    with pytest.raises(MtkitError, match="no such file"):
        check_corpus(TextCorpus(text=tmp_path / "absent.txt"), languages=("de", "de"))


def test_invalid_utf8_that_is_dropped_later(tmp_path: Path) -> None:
    corpus = TextCorpus(text=write(tmp_path / "mono.txt", b"ok\ncaf\xe9\n\x00\n"))
    [block] = read_blocks(corpus, index=0, rows_per_block=10)
    found = block.decode(drop_invalid=True)
    assert (found.columns["text"], found.num_invalid) == (["ok", "caf\ufffd", "\x00"], 1)


ROWS: list[dict[str, Any]] = [
    {"id": "a", "body": "One.\nTwo."},
    {"id": "a", "body": "Three."},
    {"id": "b", "body": "Four.\r\n\r\nFive."},
    {"id": "", "body": "Six."},
    {"id": "", "body": "Seven."},
    {"id": "c", "body": None},
    {"id": "a", "body": "Eight."},
]
NAMED = [
    ["One.", "Two.", "Three."],
    ["Four.", "Five."],
    ["Six."],
    ["Seven."],
    ["Eight."],
]
UNNAMED = [["One.", "Two."], ["Three."], *NAMED[1:]]


def write_rows(folder: Path, kind: str, rows: list[dict[str, Any]]) -> Path:
    path = folder / f"mono.{kind}"
    if kind == "parquet":
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        pq.write_table(pa.table(columns), path, row_group_size=2)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


@pytest.mark.parametrize("rows_per_block", [1, 2, 3, 100])
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_tables_with_documents_by_name(tmp_path: Path, kind: str, rows_per_block: int) -> None:
    path = write_rows(tmp_path, kind, ROWS)
    corpus = TextTableCorpus(path=path, text_column="body", document_column="id")
    assert documents_of(corpus, rows_per_block) == NAMED
    # Without names each row is a document.
    corpus = TextTableCorpus(path=path, text_column="body")
    assert documents_of(corpus, rows_per_block) == UNNAMED


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_number_names_a_document(tmp_path: Path, kind: str) -> None:
    rows = [{"id": number // 2, "body": f"line {number}"} for number in range(5)]
    path = write_rows(tmp_path, kind, rows)
    corpus = TextTableCorpus(path=path, text_column="body", document_column="id")
    assert [len(lines) for lines in documents_of(corpus, 1)] == [2, 2, 1]


@pytest.mark.parametrize("rows_per_block", [1, 2, 100])
def test_tab_separated_text(tmp_path: Path, rows_per_block: int) -> None:
    content = b"name\ttext\nx\tone\nx\ttwo\ny\tthree\t\n"
    path = write(tmp_path / "mono.tsv", content)
    expected = [["one", "two"], ["three"]]
    for columns in (("text", "name"), (2, 1)):
        text, document = columns
        corpus = TextTableCorpus(path=path, text_column=text, document_column=document)
        found = documents_of(corpus, rows_per_block)
        assert found == (expected if text == "text" else [["text"], *expected])
    corpus = TextTableCorpus(path=path, text_column="text")
    assert documents_of(corpus, rows_per_block) == [["one"], ["two"], ["three"]]


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("m.tsv", b"a\tb\nc\n", (2, ""), r"m\.tsv:2: 1 tab-separated column, but column 2"),
        ("m.tsv", b"a\tb\n", ("c", ""), r"m\.tsv:1: no column 'c'"),
        ("m.tsv", b"a\tb\n", ("a", 1), "are both column 1"),
        ("m.jsonl", b'{"t": "x"}\n{"u": "x"}\n', ("t", ""), r"m\.jsonl:2: no column 't'"),
        ("m.jsonl", b'{"t": 5}\n', ("t", ""), "expected text in 't', found a number"),
        ("m.jsonl", b'{"t": "x", "d": []}\n', ("t", "d"), "expected text in 'd', found a list"),
        ("m.jsonl", b"[1]\n", ("t", ""), "expected an object, found a list"),
        ("m.jsonl", b'{"t": "\\ud83d"}\n', ("t", ""), "half of a surrogate pair"),
        ("m.jsonl", b"caf\xe9\n", ("t", ""), r"m\.jsonl:1: byte 4"),
        ("m.parquet", b"PAR1 but no more", ("t", ""), "damaged Parquet file"),
    ],
)
def test_faults_of_tables(
    tmp_path: Path, name: str, content: bytes, columns: tuple[Any, Any], message: str
) -> None:
    path = write(tmp_path / name, content)
    corpus = TextTableCorpus(path=path, text_column=columns[0], document_column=columns[1])
    with pytest.raises(MtkitError, match=message) as fault:
        read_corpus_text(corpus)
    assert "source_column" not in fault.value.hint


def test_faults_of_parquet(tmp_path: Path) -> None:
    path = write_rows(tmp_path, "parquet", [{"body": 1.5, "other": "x"}])
    with pytest.raises(MtkitError, match="expected text in 'body', found double"):
        read_corpus_text(TextTableCorpus(path=path, text_column="body"))
    with pytest.raises(MtkitError, match=r"no column 'bod'.*did you mean 'body'"):
        read_corpus_text(TextTableCorpus(path=path, text_column="bod"))
    column = pa.array([b"fine", b"caf\xe9"]).view(pa.binary())
    text = pa.StringArray.from_buffers(2, column.buffers()[1], column.buffers()[2])
    pq.write_table(pa.table({"body": text}), path)
    corpus = TextTableCorpus(path=path, text_column="body")
    with pytest.raises(MtkitError, match=r"mono\.parquet, row 2: byte 4 of the text"):
        read_corpus_text(corpus)
    assert documents_of(corpus) == [["fine"], ["caf\ufffd"]]


def test_only_the_first_rows_of_parquet_are_read(tmp_path: Path) -> None:
    path = write_rows(tmp_path, "parquet", ROWS)
    for max_pairs, expected in ((1, UNNAMED[:1]), (3, UNNAMED[:3]), (50, UNNAMED)):
        corpus = TextTableTrainingCorpus(path=path, text_column="body", max_pairs=max_pairs)
        for rows_per_block in (1, 2, 3, 100):
            assert documents_of(corpus, rows_per_block) == expected


def test_rows_of_parquet_come_in_bounded_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks_module, "BYTES_PER_BLOCK", 100)
    monkeypatch.setattr(blocks_module, "ROWS_PER_STEP", 2)
    rows = [{"body": "x" * 40, "id": number // 5} for number in range(20)]
    path = write_rows(tmp_path, "parquet", rows)
    corpus = TextTableCorpus(path=path, text_column="body", document_column="id")
    assert len(list(read_blocks(corpus, index=0, rows_per_block=10_000))) > 4
    assert [len(document) for document in documents_of(corpus)] == [5, 5, 5, 5]


def test_files_whose_change_is_noticed(tmp_path: Path) -> None:
    assert input_files(TextCorpus(text=tmp_path / "a")) == [tmp_path / "a"]
    table = TextTableCorpus(path=tmp_path / "a.tsv", text_column=1)
    assert input_files(table) == [tmp_path / "a.tsv"]
    with pytest.raises(MtkitError, match=r"a\.tsv: text in one language, but sentence pairs"):
        require_parallel(table)
