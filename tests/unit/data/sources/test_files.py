"""Two text files, aligned by line."""

import gzip
import pickle
import re
from itertools import count
from pathlib import Path

import pytest
from pydantic import ValidationError

from mtkit.data.sources.corpora import read_blocks
from mtkit.data.sources.lines import LineReader
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import FileCorpus, FileTrainingCorpus

from ....corpus_rows import decode_block


@pytest.fixture
def corpus(tmp_path: Path) -> FileCorpus:
    return FileCorpus(source=tmp_path / "en", target=tmp_path / "de")


def test_pairs_of_two_files(tmp_path: Path, pairs_of) -> None:
    (tmp_path / "en").write_bytes(b"one\r\n\r\nthree")
    (tmp_path / "de.gz").write_bytes(gzip.compress(b"eins\nzwei\ndrei\n"))
    pairs = pairs_of(FileCorpus(source=tmp_path / "en", target=tmp_path / "de.gz"))
    assert pairs == [("one", "eins"), ("", "zwei"), ("three", "drei")]


def test_blocks_hold_what_lies_in_the_files(tmp_path: Path, corpus, blocks_of) -> None:
    (tmp_path / "en").write_bytes(b"\xef\xbb\xbf1\r\n2\n3\n\n5")
    (tmp_path / "de").write_bytes(b"eins\nzwei\ndrei\nvier\n\n")
    blocks = blocks_of(corpus, pairs_per_block=2, index=7)
    assert [(block.corpus, block.first, block.num_rows) for block in blocks] == [
        (7, 0, 2), (7, 2, 2), (7, 4, 1),
    ]  # fmt: skip
    assert [each.read() for each in blocks[1].content] == [b"3\n\n", b"drei\nvier\n"]
    sent = [pickle.loads(pickle.dumps(block)) for block in blocks]
    assert sent == blocks
    assert [decode_block(block, drop_invalid=False) for block in sent] == [
        (["1", "2"], ["eins", "zwei"], 0),
        (["3", ""], ["drei", "vier"], 0),
        (["5"], [""], 0),
    ]


@pytest.mark.parametrize("pairs_per_block", [1, 2, 3, 100])
@pytest.mark.parametrize(("short", "long"), [("en", "de"), ("de", "en")])
def test_unequal_line_counts(
    tmp_path: Path, corpus, blocks_of, short: str, long: str, pairs_per_block: int
) -> None:
    (tmp_path / short).write_bytes(b"1\n2\n3\n")
    (tmp_path / long).write_bytes(b"1\n2\n3\n4\n5")
    with pytest.raises(MtkitError) as caught:
        blocks_of(corpus, pairs_per_block)
    message = caught.value.message
    lengths = {short: 3, long: 5}
    assert f"{tmp_path / 'en'} has {lengths['en']} lines" in message
    assert f"{tmp_path / 'de'} has {lengths['de']}:" in message
    assert f"{tmp_path / long}:4 is the first without a counterpart" in message


def test_unequal_files_are_read_twice(
    tmp_path: Path, corpus, blocks_of, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "en").write_bytes(b"1\n" * 100)
    (tmp_path / "de").write_bytes(b"1\n" * 90)
    opened = count()
    original = LineReader.open
    monkeypatch.setattr(LineReader, "open", lambda path: (next(opened), original(path))[1])
    with pytest.raises(MtkitError, match="has 100 lines"):
        blocks_of(corpus)
    # And once more to find where they diverge.
    assert next(opened) == 4


def test_max_pairs_leaves_the_rest_unread(tmp_path: Path, blocks_of) -> None:
    (tmp_path / "en").write_bytes(b"1\n2\n3\n4\n")
    (tmp_path / "de").write_bytes(b"1\n2\n3\n\xff\n5\n6\n")
    files = {"source": tmp_path / "en", "target": tmp_path / "de"}
    for max_pairs in (1, 2, 3):
        blocks = blocks_of(FileTrainingCorpus(**files, max_pairs=max_pairs))
        assert sum(block.num_rows for block in blocks) == max_pairs
        assert decode_block(blocks[-1], drop_invalid=False)[0][-1] == str(max_pairs)
    with pytest.raises(MtkitError, match="has 4 lines"):
        blocks_of(FileTrainingCorpus(**files, max_pairs=5))


@pytest.mark.parametrize(
    ("skip", "left"),
    [
        ("2", "1 3 4 5 6 7"),
        ("1-3, 5", "4 6 7"),
        ("6-, 1", "2 3 4 5"),
        (" 2 - 3 ,3-4,", "1 5 6 7"),
    ],
)
def test_skipped_lines_keep_the_numbers_of_the_others(
    tmp_path: Path, blocks_of, skip: str, left: str
) -> None:
    # Line 2 is invalid UTF-8, which is no error where it isn't read.
    content = b"".join(b"%d\n" % number if number != 2 else b"2\xff\n" for number in range(1, 8))
    for name in ("en", "de"):
        (tmp_path / name).write_bytes(content)
    corpus = FileTrainingCorpus(source=tmp_path / "en", target=tmp_path / "de", skip=skip)
    found = [
        (number, line)
        for block in blocks_of(corpus)
        for rows in [block.decode(drop_invalid="2" in left.split())]
        for number, line in zip(rows.numbers.tolist(), rows.columns["target"], strict=True)
    ]
    assert [number for number, _ in found] == [int(number) for number in left.split()]
    assert all(line.startswith(str(number)) for number, line in found)


def test_unequal_files_are_told_where_they_diverge(tmp_path: Path, corpus, blocks_of) -> None:
    lengths = [(number * 7_919) % 83 + 4 for number in range(3_000)]
    (tmp_path / "en").write_text("".join("a" * length + "\n" for length in lengths))
    del lengths[1_700]
    (tmp_path / "de").write_text("".join("b" * length + "\n" for length in lengths))
    with pytest.raises(MtkitError, match="has 3,000 lines") as caught:
        blocks_of(corpus)
    found = re.search(r"near line ([\d,]+)", caught.value.hint)
    assert found is not None
    assert abs(int(found[1].replace(",", "")) - 1_701) <= 30


def test_skipped_lines_must_exist(tmp_path: Path, blocks_of) -> None:
    for name in ("en", "de"):
        (tmp_path / name).write_bytes(b"1\n2\n3\n")
    files = {"source": tmp_path / "en", "target": tmp_path / "de"}
    with pytest.raises(MtkitError, match="`skip` names row 4, but the last one is 3"):
        blocks_of(FileTrainingCorpus(**files, skip="4-9"))
    for wrong in ("x", "0", "5-4", "1-2-3", "-3"):
        with pytest.raises(ValidationError, match="line"):
            FileTrainingCorpus(**files, skip=wrong)


@pytest.mark.parametrize(
    ("target", "lines", "encoding"),
    [
        ("hsb", ["Připołdnica přińdźe wječor", "Łužica je rjana", "Što činiš žno"], "ISO-8859-2"),
        ("hsb", ["Připołdnica přińdźe wječor", "Łužica je rjana", "Što činiš žno"], "WINDOWS-1250"),
        ("de", ["Die Tür ist größer", "Äpfel"], "WINDOWS-1252"),
        ("ru", ["Широкая электрификация"], "KOI8-R"),
        ("el", ["Ξεσκεπάζω τὴν ψυχοφθόρα"[:11], "βδελυγμία"], "WINDOWS-1253"),
        ("zh", ["我能吞下玻璃而不伤身体", "中国人民"], "GB18030"),
        ("zh", ["窗外下着小雨，他撑着伞去买菜。"], "GB18030"),
        ("zh-TW", ["我能吞下玻璃而不傷身體", "龍蝦餛飩"], "BIG5"),
        ("ja", ["私はガラスを食べられます。", "それは私を傷つけません。"], "SHIFT_JIS"),
        ("ja", ["私はガラスを食べられます。", "それは私を傷つけません。"], "EUC-JP"),
        ("ja", ["㈱マイクロソフト①", "私はガラスを食べられます。"], "CP932"),
        ("ko", ["나는 유리를 먹을 수 있어요.", "그래도 아프지 않아요"], "EUC-KR"),
        ("ko", ["똠방각하 펲시콜라", "나는 유리를 먹을 수 있어요."], "CP949"),
    ],
)
def test_the_hint_names_the_encoding_that_fits_the_language(
    tmp_path: Path, target: str, lines: list[str], encoding: str
) -> None:
    (tmp_path / "a.en").write_text("line\n" * len(lines))
    (tmp_path / "b").write_bytes("".join(f"{line}\n" for line in lines).encode(encoding))
    corpus = FileTrainingCorpus(source=tmp_path / "a.en", target=tmp_path / "b")
    [block] = read_blocks(corpus, languages=("en", target))
    with pytest.raises(MtkitError) as caught:
        block.decode(drop_invalid=False)
    assert f"iconv -f {encoding} -t UTF-8 {tmp_path}/b > {tmp_path}/b.utf8" in caught.value.hint


def test_what_is_no_utf8_is_told_by_line_or_counted(tmp_path: Path, corpus, blocks_of) -> None:
    (tmp_path / "en").write_bytes(b"1\n2\n3 \xff\n4\n")
    (tmp_path / "de").write_bytes(b"1\n2\n\xe4\n\xc3\xa4 \xc3\n")
    first, second = blocks_of(corpus)
    assert decode_block(first, drop_invalid=False)[2] == 0
    with pytest.raises(MtkitError) as caught:
        decode_block(second, drop_invalid=False)
    assert caught.value.message.startswith(
        f"{tmp_path / 'en'}:3: byte 3 of the line is invalid UTF-8"
    )
    assert decode_block(second, drop_invalid=True) == (["3 \ufffd", "4"], ["\ufffd", "ä \ufffd"], 2)


def test_a_file_in_utf16_is_told_even_where_lines_are_dropped(tmp_path, corpus, blocks_of) -> None:
    (tmp_path / "en").write_bytes("one\n".encode("utf-16"))
    (tmp_path / "de").write_bytes(b"eins\nzwei\n")
    with pytest.raises(MtkitError) as caught:
        decode_block(blocks_of(corpus)[0], drop_invalid=True)
    assert "it is UTF-16" in caught.value.hint


def test_an_empty_file(tmp_path: Path, corpus, blocks_of) -> None:
    for name in ("en", "de"):
        (tmp_path / name).touch()
    with pytest.raises(MtkitError, match="en: empty file"):
        blocks_of(corpus)


def test_an_empty_packed_file(tmp_path: Path, blocks_of) -> None:
    for name in ("en.gz", "de.gz"):
        (tmp_path / name).write_bytes(gzip.compress(b""))
    with pytest.raises(MtkitError, match=r"en\.gz and .*de\.gz: no lines in them"):
        blocks_of(FileCorpus(source=tmp_path / "en.gz", target=tmp_path / "de.gz"))


def test_a_missing_file_says_where_paths_start(tmp_path: Path, corpus, blocks_of) -> None:
    (tmp_path / "en").write_text("x\n")
    with pytest.raises(MtkitError, match="de: no such file") as caught:
        blocks_of(corpus)
    assert "data_root" in caught.value.hint


def test_long_lines_make_small_blocks(corpus: FileCorpus, blocks_of) -> None:
    """Memory is bounded by a block, whatever its lines are like."""
    lines = [str(number).encode() * 20_000 for number in range(1_000)]
    corpus.source.write_bytes(b"\n".join(lines))
    corpus.target.write_bytes(b"\n".join(b"%d" % number for number in range(1_000)))
    blocks = blocks_of(corpus, pairs_per_block=10_000)
    assert max(block.content[0].size for block in blocks) < 30_000_000
    assert [block.first for block in blocks] == [256 * place for place in range(len(blocks))]
    assert sum(block.num_rows for block in blocks) == 1_000
    assert b"".join(block.content[0].read() for block in blocks) == corpus.source.read_bytes()
