"""Every kind of corpus, written by other tools and read back; checks before work starts."""

import bz2
import csv
import gzip
import json
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from mtkit.data.phrasebook.sentence_maker import MAX_PAIRS
from mtkit.data.sources.corpora import (
    AnyCorpus,
    check_corpus,
    input_files,
    read_blocks,
    read_corpus_pairs,
)
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import (
    FileCorpus,
    HeldOutPhrasebook,
    HubCorpus,
    PairedFileCorpus,
    PhrasebookCorpus,
    PhrasebookTrainingCorpus,
)

from ....corpus_rows import decode_block

Pairs = list[tuple[str, str]]
LANGUAGES = ("en", "de")


def write_text(path: Path, lines: list[str]) -> Path:
    content = "".join(f"{line}\n" for line in lines).encode()
    match path.suffix:
        case ".gz":
            content = gzip.compress(content)
        case ".bz2":
            content = bz2.compress(content)
        case ".xz":
            content = lzma.compress(content)
        case ".zst":
            content = pa.compress(content, codec="zstd", asbytes=True)
    path.write_bytes(content)
    return path


def two_files(ending: str) -> Callable[[Path, Pairs], FileCorpus]:
    def write(folder: Path, pairs: Pairs) -> FileCorpus:
        return FileCorpus(
            source=write_text(folder / f"text.en{ending}", [source for source, _ in pairs]),
            target=write_text(folder / f"text.de{ending}", [target for _, target in pairs]),
        )

    return write


def tsv(folder: Path, pairs: Pairs) -> PairedFileCorpus:
    with (folder / "text.tsv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(
            stream, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n"
        )
        writer.writerows((number, *pair) for number, pair in enumerate(pairs))
    return PairedFileCorpus(path=folder / "text.tsv", source_column=2, target_column=3)


def json_lines(folder: Path, pairs: Pairs) -> PairedFileCorpus:
    rows = [{"translation": {"de": target, "en": source}} for source, target in pairs]
    # Every second line spells what is no ASCII by its code.
    lines = [json.dumps(row, ensure_ascii=number % 2 == 0) for number, row in enumerate(rows)]
    return PairedFileCorpus(path=write_text(folder / "text.jsonl.gz", lines))


def parquet(folder: Path, pairs: Pairs) -> PairedFileCorpus:
    sides = {"src": [source for source, _ in pairs], "tgt": [target for _, target in pairs]}
    table = pa.table(sides, schema=pa.schema({"src": pa.string(), "tgt": pa.string()}))
    pq.write_table(table, folder / "text.parquet", row_group_size=300)
    return PairedFileCorpus(path=folder / "text.parquet", source_column="src", target_column="tgt")


def tmx(folder: Path, pairs: Pairs) -> PairedFileCorpus:
    units = [
        f'<tu><tuv xml:lang="de-DE"><seg>{escape(target)}</seg></tuv>'
        f'<tuv xml:lang="en"><seg>{escape(source)}</seg></tuv></tu>'
        for source, target in pairs
    ]
    lines = ['<tmx version="1.4"><header/><body>', *units, "</body></tmx>"]
    return PairedFileCorpus(path=write_text(folder / "text.tmx.xz", lines))


def moses_zip(folder: Path, pairs: Pairs) -> PairedFileCorpus:
    files = two_files("")(folder, pairs)
    with zipfile.ZipFile(folder / "de-en.txt.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(files.source, "text.de-en.en")
        archive.write(files.target, "text.de-en.de")
        archive.writestr("README", "text")
    return PairedFileCorpus(path=folder / "de-en.txt.zip")


def data_set(folder: Path, pairs: Pairs) -> HubCorpus:
    (folder / "set").mkdir(exist_ok=True)
    kind = pa.struct({"en": pa.string(), "de": pa.string()})
    rows = pa.array([{"en": source, "de": target} for source, target in pairs], kind)
    pq.write_table(pa.table({"translation": rows}), folder / "set" / "train.parquet")
    return HubCorpus(dataset=str(folder / "set"), split="train")


WRITERS: dict[str, Callable[[Path, Pairs], AnyCorpus]] = {
    **{f"files{ending}": two_files(ending) for ending in ("", ".gz", ".bz2", ".xz", ".zst")},
    "tsv": tsv,
    "json lines": json_lines,
    "parquet": parquet,
    "tmx": tmx,
    "zip": moses_zip,
    "data set": data_set,
}


@pytest.mark.parametrize("kind", WRITERS)
def test_real_text_comes_back(tmp_path: Path, kind: str, multi30k: Pairs, pairs_of) -> None:
    corpus = WRITERS[kind](tmp_path, multi30k)
    check_corpus(corpus, languages=LANGUAGES)
    assert len(multi30k) == 1014
    assert pairs_of(corpus) == multi30k
    for pairs_per_block in (1, 250, 5_000):
        blocks = list(
            read_blocks(corpus, index=3, rows_per_block=pairs_per_block, languages=LANGUAGES)
        )
        sizes = [block.num_rows for block in blocks]
        assert set(sizes[:-1]) <= {pairs_per_block}
        assert [block.first for block in blocks] == [sum(sizes[:n]) for n in range(len(sizes))]
        decoded = [decode_block(block, drop_invalid=False) for block in blocks]
        pairs = [pair for source, target, _ in decoded for pair in zip(source, target, strict=True)]
        assert pairs == multi30k


# A line is what "\n" ends, and Windows' "\r" before it is no part of it; no XML holds control
# characters, and no UTF-8 half of a surrogate pair.
CHARACTERS = st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff")
LINES = st.text(CHARACTERS | st.sampled_from("\u0085\u2028 <&\"'\\"), max_size=20)


@pytest.mark.parametrize("kind", [kind for kind in WRITERS if kind != "data set"])
@given(pairs=st.lists(st.tuples(LINES, LINES), min_size=1, max_size=8))
@example(pairs=[("", "")])
@example(pairs=[("\u0085", "\u2028"), ("", "x"), ("", "")])
def test_any_lines_come_back(kind: str, pairs: Pairs) -> None:
    # At the very start of a file it is a byte-order mark.
    pairs = [(source.lstrip("\ufeff"), target.lstrip("\ufeff")) for source, target in pairs]
    with TemporaryDirectory() as folder:
        corpus = WRITERS[kind](Path(folder), pairs)
        assert list(read_corpus_pairs(corpus, phrasebook_split="dev", languages=LANGUAGES)) == pairs


def test_a_tag_stands_before_each_source_that_is_not_blank(tmp_path: Path, pairs_of) -> None:
    corpus = two_files("")(tmp_path, [("one", "eins"), ("", "zwei"), (" ", "")])
    tagged = corpus.model_copy(update={"tag": "<BT>"})
    assert pairs_of(tagged) == [("<BT> one", "eins"), ("", "zwei"), (" ", "")]
    [block] = read_blocks(tagged, index=0, rows_per_block=9, languages=LANGUAGES)
    assert block.content[0].read() == b"one\n\n \n"


def test_the_phrasebook_knows_one_direction(pairs_of, blocks_of) -> None:
    corpus = PhrasebookCorpus(builtin="phrasebook", sentences=3)
    assert len(pairs_of(corpus)) == 3
    for use in (pairs_of, check):
        with pytest.raises(MtkitError, match="English-German"):
            use(corpus, "de", "en")
    fewer = PhrasebookTrainingCorpus(builtin="phrasebook", sentences=30, max_pairs=3)
    assert [block.num_rows for block in blocks_of(fewer)] == [2, 1]


def check(corpus: AnyCorpus, source_language: str = "en", target_language: str = "de") -> None:
    check_corpus(corpus, languages=(source_language, target_language))


def test_a_recipe_knows_how_much_the_phrasebook_has() -> None:
    for section, split in ((PhrasebookCorpus, "train"), (HeldOutPhrasebook, "dev")):
        section(builtin="phrasebook", sentences=MAX_PAIRS[split])
        with pytest.raises(ValidationError, match="less than or equal"):
            section(builtin="phrasebook", sentences=MAX_PAIRS[split] + 1)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text.tsv", b"", "empty file"),
        ("text.tsv", b"one column\n", ":1: 1 tab-separated column"),
        ("text.tsv", "a\tb\n".encode("utf-16"), "byte 1 of the line is invalid UTF-8"),
        ("text.tsv", gzip.compress(b"a\tb\n", mtime=0), "byte 2 of the line is invalid UTF-8"),
        ("text.tsv.gz", b"a\tb\n", "damaged gzip file"),
        ("text.jsonl", b"[\n{}\n]\n", ":1: invalid JSON"),
        ("text.jsonl", b'{"en": "a"}\n', "found columns 'en'"),
        ("text.parquet", b"PAR1", "damaged Parquet file"),
        ("text.tmx", b"<html/>", "the root element is <html>"),
        ("text.tmx.zst", b"<tmx/>", "damaged zstd file"),
        ("text.zip", b"PK", "damaged zip file"),
    ],
)
def test_faults_are_told_before_work_starts(tmp_path, name, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(MtkitError) as caught:
        check(PairedFileCorpus(path=tmp_path / name))
    assert str(tmp_path / name) in caught.value.message
    assert message in caught.value.message


@pytest.mark.parametrize("name", ["text.tsv", "text.jsonl", "text.parquet", "text.tmx", "text.zip"])
def test_a_file_that_is_missing_or_a_folder(tmp_path: Path, name: str) -> None:
    corpus = PairedFileCorpus(path=tmp_path / name)
    with pytest.raises(MtkitError, match=f"{name}: no such file") as caught:
        check(corpus)
    assert "data_root" in caught.value.hint
    corpus.path.mkdir()
    with pytest.raises(MtkitError, match=f"{name}: a folder, not a file"):
        check(corpus)


def test_a_line_that_may_be_dropped_is_no_fault_yet(tmp_path: Path) -> None:
    (tmp_path / "text.tsv").write_bytes(b"\xff\tb\n")
    check(PairedFileCorpus(path=tmp_path / "text.tsv"))


def test_a_data_set_in_a_folder_is_checked_and_one_on_the_hub_is_not(tmp_path: Path) -> None:
    check(HubCorpus(dataset="some/thing", split="train"))
    with pytest.raises(MtkitError, match="set: no such folder"):
        check(HubCorpus(dataset=str(tmp_path / "set"), split="train"))
    (tmp_path / "set").mkdir()
    with pytest.raises(MtkitError, match="set: no files in it"):
        check(HubCorpus(dataset=str(tmp_path / "set"), split="train"))
    corpus = data_set(tmp_path, [("a", "b")])
    check(corpus)
    with pytest.raises(MtkitError, match="found columns 'translation'"):
        check(corpus, "en", "fr")


def test_the_files_that_tell_of_a_change(tmp_path: Path) -> None:
    source, target = tmp_path / "en", tmp_path / "de"
    assert input_files(FileCorpus(source=source, target=target)) == [source, target]
    assert input_files(PairedFileCorpus(path=tmp_path / "x.tmx")) == [tmp_path / "x.tmx"]
    assert input_files(HubCorpus(dataset="some/thing", split="train")) == []
    assert input_files(PhrasebookCorpus(builtin="phrasebook")) == []
    for name in ("set/b.csv", "set/data/a.csv", "set/README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
    found = input_files(HubCorpus(dataset=str(tmp_path / "set"), split="train"))
    names = [str(path.relative_to(tmp_path)) for path in found]
    assert names == ["set/README.md", "set/b.csv", "set/data/a.csv"]
