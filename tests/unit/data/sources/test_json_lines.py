"""JSON lines."""

from pathlib import Path

import pytest

from mtkit.data.sources.corpora import read_blocks
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import PairedFileCorpus

from ....corpus_rows import decode_block


def corpus_of(folder: Path, *lines: str | bytes, **columns) -> PairedFileCorpus:
    path = folder / "text.jsonl"
    parts = [line if isinstance(line, bytes) else line.encode() for line in lines]
    path.write_bytes(b"".join(part + b"\n" for part in parts))
    return PairedFileCorpus(path=path, **columns)


def fault_of(pairs_of, corpus: PairedFileCorpus) -> MtkitError:
    with pytest.raises(MtkitError) as caught:
        pairs_of(corpus)
    return caught.value


def test_where_the_text_is_by_default(tmp_path: Path, pairs_of) -> None:
    corpus = corpus_of(
        tmp_path,
        '{"translation": {"en": "one", "de": "eins", "fr": "un"}, "en": "not this"}',
        '{"de": "zwei", "en": "two", "id": 3}',
        '{"de": "drei", "en": "three", "translation": "drei"}',
    )
    assert pairs_of(corpus) == [("one", "eins"), ("two", "zwei"), ("three", "drei")]


def test_columns_by_name(tmp_path: Path, pairs_of) -> None:
    columns = {"source_column": "src", "target_column": "tgt"}
    corpus = corpus_of(tmp_path, '{"src": "a", "tgt": "b", "en": "c", "de": "d"}', **columns)
    assert pairs_of(corpus) == [("a", "b")]


def test_null_and_blank_lines_are_blank_and_line_breaks_are_spaces(tmp_path, pairs_of) -> None:
    corpus = corpus_of(
        tmp_path,
        "\ufeff" + r'{"en": null, "de": "a\r\nb\n"}',
        "",
        r'{"en": "\na\u2028b\u0085c\rd", "de": "Z\u00fcrich \ud83d\ude00"}' + "\r",
    )
    assert pairs_of(corpus) == [("", "a b"), ("", ""), ("a\u2028b\u0085c d", "Zürich 😀")]


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ('{"en": "a", ', "invalid JSON: Expecting property name", "jq -c . FILE"),
        ("[" * 100_000, "invalid JSON: ", "jq -c . FILE"),
        ('["a", "b"]', "expected an object, found a list", "jq -c '.[]' FILE"),
        ("3", "expected an object, found a number", ""),
        ('{"en": "a", "fr": "b"}',
         "expected a `translation` column with 'en' and 'de', or columns 'en' and 'de', found "
         "columns 'en', 'fr'", "source_column = ..."),
        ('{"translation": {"en": "a", "fr": "b"}}',
         "columns 'translation', `translation` with 'en', 'fr'", "source_column = ..."),
        ('{"en": "a", "de": 5}', "expected text in 'de', found a number", "source_column"),
        ('{"en": {"x": 1}, "de": "b"}', "expected text in 'en', found an object", ""),
        ('{"en": true, "de": "b"}', "expected text in 'en', found true or false", ""),
        (r'{"en": "a\ud83d", "de": "b"}', r"half of a surrogate pair", "UTF-8"),
    ],
)  # fmt: skip
def test_faults_are_told_by_line(tmp_path, pairs_of, line: str, message: str, hint: str) -> None:
    good = '{"en": "a", "de": "b"}'
    fault = fault_of(pairs_of, corpus_of(tmp_path, good, good, good, line))
    assert fault.message.startswith(f"{tmp_path / 'text.jsonl'}:4: ")
    assert message in fault.message
    assert hint in fault.hint


def test_a_column_that_is_not_there(tmp_path: Path, pairs_of) -> None:
    columns = {"source_column": "src", "target_column": "trg"}
    fault = fault_of(pairs_of, corpus_of(tmp_path, '{"src": "a", "tgt": "b"}', **columns))
    assert fault.message.endswith(
        ":1: no column 'trg', found columns 'src', 'tgt' (did you mean 'tgt'?)"
    )


def test_what_is_no_unicode_is_counted_where_it_is_dropped(
    tmp_path: Path, blocks_of, pairs_of
) -> None:
    corpus = corpus_of(tmp_path, b'{"en": "a\xff", "de": "b"}', r'{"en": "a", "de": "\udc00"}')
    [block] = blocks_of(corpus)
    assert decode_block(block, drop_invalid=True) == (["a\ufffd", "a"], ["b", "\ufffd"], 2)
    assert "byte 10 of the line" in fault_of(pairs_of, corpus).message


def test_broken_lines_are_counted(tmp_path) -> None:
    corpus = corpus_of(tmp_path, "{", '{"en": "a", "de": "b"}', "[]", "3")
    (block,) = read_blocks(corpus, index=0, rows_per_block=9, languages=("en", "de"))
    with pytest.raises(MtkitError) as caught:
        decode_block(block, drop_invalid=True)
    assert "text.jsonl:1: invalid JSON: " in caught.value.message
    assert caught.value.message.endswith("; 3 of 4 lines are broken: 1, 3, 4")
