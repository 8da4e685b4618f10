"""Lines and pairs out of files, and what is said of files that are wrong."""

import gzip
from importlib import import_module
from pathlib import Path

import pytest
from pydantic import ValidationError

from mtkit.data.corpora import read_lines, read_pairs
from mtkit.data.phrasebook.splits import MAX_PAIRS
from mtkit.errors import MtkitError
from mtkit.recipe.data import FileCorpus, HeldOutPhrasebook, HubCorpus, PhrasebookCorpus


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def pairs_of(corpus, source_language: str = "en", target_language: str = "de"):
    return list(
        read_pairs(
            corpus,
            phrasebook_split="dev",
            source_language=source_language,
            target_language=target_language,
        )
    )


@pytest.mark.parametrize("name", ["plain.txt", "packed.txt.gz"])
@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\n\nb\n", ["a", "", "b"]),
        (b"\n", [""]),
        (b"", []),
        # U+0085 and U+2028 end a line for str.splitlines, and a lone \r in universal newlines.
        ("Mr\u0085 X\u2028y\rz\n".encode(), ["Mr\u0085 X\u2028y\rz"]),
        ("Köln\n東京\n".encode(), ["Köln", "東京"]),
    ],
)
def test_lines(tmp_path: Path, name: str, content: bytes, lines: list[str]) -> None:
    assert list(read_lines(write(tmp_path / name, content))) == lines


def test_a_fault_in_utf8_is_told_by_file_line_and_byte(tmp_path: Path) -> None:
    path = write(tmp_path / "latin.de", "gut\nschön\n".encode("latin-1"))
    with pytest.raises(MtkitError, match=r"latin\.de:2: byte 4 of the line is no UTF-8 \(0xf6\)"):
        list(read_lines(path))


@pytest.mark.parametrize("damage", ["cut", "not gzip"])
def test_a_damaged_gzip_file(tmp_path: Path, damage: str) -> None:
    whole = gzip.compress(b"one line\n" * 10_000)
    path = tmp_path / "text.gz"
    path.write_bytes(whole[:50] if damage == "cut" else b"plain text")
    with pytest.raises(MtkitError, match=r"text\.gz: damaged gzip file after line"):
        list(read_lines(path))


def test_pairs_of_two_files(tmp_path: Path) -> None:
    source = write(tmp_path / "en", b"one\r\n\r\nthree")
    target = write(tmp_path / "de.gz", b"eins\nzwei\ndrei\n")
    corpus = FileCorpus(source=source, target=target)
    assert pairs_of(corpus) == [("one", "eins"), ("", "zwei"), ("three", "drei")]


@pytest.mark.parametrize(("short", "long"), [("en", "de"), ("de", "en")])
def test_unequal_line_counts(tmp_path: Path, short: str, long: str) -> None:
    write(tmp_path / short, b"1\n2\n3\n")
    write(tmp_path / long, b"1\n2\n3\n4\n5\n")
    with pytest.raises(MtkitError) as caught:
        pairs_of(FileCorpus(source=tmp_path / "en", target=tmp_path / "de"))
    message = caught.value.message
    lengths = {short: 3, long: 5}
    assert f"{tmp_path / 'en'} has {lengths['en']} lines" in message
    assert f"{tmp_path / 'de'} has {lengths['de']}:" in message
    assert f"{tmp_path / long}:4 is the first without a partner" in message


def test_an_empty_file(tmp_path: Path) -> None:
    corpus = FileCorpus(source=write(tmp_path / "en", b""), target=write(tmp_path / "de", b""))
    with pytest.raises(MtkitError, match="en: no lines in it"):
        pairs_of(corpus)


def test_a_missing_file_that_is_there_under_a_similar_name(tmp_path: Path) -> None:
    write(tmp_path / "train.en.gz", b"x\n")
    corpus = FileCorpus(source=tmp_path / "train.en", target=tmp_path / "train.de")
    with pytest.raises(MtkitError, match=r"train\.en: no such file") as caught:
        pairs_of(corpus)
    assert caught.value.hint == f"there is {tmp_path / 'train.en.gz'}: name that one"


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    write(tmp_path / "en", b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n")
    # Only at a file's start is it a mark; elsewhere it is a character, however useless.
    assert list(read_lines(tmp_path / "en")) == ["one", "\ufefftwo"]


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(MtkitError, match="is a folder, not a text file"):
        pairs_of(FileCorpus(source=tmp_path, target=tmp_path))


@pytest.fixture
def local_data_set(tmp_path: Path) -> HubCorpus:
    """A folder of Parquet, as `datasets` itself writes it: it needs no network."""
    datasets = import_module("datasets")
    rows = [{"en": "one\ntwo", "de": "eins zwei"}, {"en": "three", "de": "drei"}]
    folder = tmp_path / "set"
    folder.mkdir()
    data_set = datasets.Dataset.from_dict({"translation": rows})
    data_set.to_parquet(str(folder / "train.parquet"))
    return HubCorpus(dataset=str(folder), split="train")


def test_a_data_set_is_read_from_its_translation_column(local_data_set: HubCorpus) -> None:
    # A sentence is a line, so that the break inside the first became a space.
    assert pairs_of(local_data_set) == [("one two", "eins zwei"), ("three", "drei")]
    assert pairs_of(local_data_set, "de", "en")[1] == ("drei", "three")


def test_a_data_set_without_the_language(local_data_set: HubCorpus) -> None:
    with pytest.raises(
        MtkitError, match=r"row 1: expected a `translation` column with 'en' and 'f"
    ):
        pairs_of(local_data_set, "en", "fr")


def test_a_data_set_that_is_not_there(tmp_path: Path) -> None:
    corpus = HubCorpus(dataset=str(tmp_path / "nothing"), split="train")
    with pytest.raises(MtkitError, match=r"nothing.*train") as caught:
        pairs_of(corpus)
    assert "check its name" in caught.value.hint


def test_the_phrasebook_knows_one_direction() -> None:
    corpus = PhrasebookCorpus(builtin="phrasebook", sentences=3)
    assert len(pairs_of(corpus)) == 3
    with pytest.raises(MtkitError, match="English-German"):
        pairs_of(corpus, "de", "en")


@pytest.mark.parametrize(
    ("name", "content", "hint"),
    [
        ("text", gzip.compress(b"one\n", mtime=0), "it is gzip'd: call it text.gz"),
        ("text.en", "eins\n".encode("utf-16"), "it is UTF-16: iconv -f UTF-16 -t UTF-8 text.en"),
        ("text.de", "schön\n".encode("latin-1"), "iconv -f WINDOWS-1252"),
    ],
    ids=["gzip", "utf-16", "latin-1"],
)
def test_what_a_file_is_when_it_is_no_utf8(tmp_path, name, content, hint) -> None:
    with pytest.raises(MtkitError) as caught:
        list(read_lines(plain(tmp_path / name, content)))
    assert hint in caught.value.hint


def plain(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_a_recipe_knows_how_much_the_phrasebook_has() -> None:
    for section, split in ((PhrasebookCorpus, "train"), (HeldOutPhrasebook, "dev")):
        section(builtin="phrasebook", sentences=MAX_PAIRS[split])
        with pytest.raises(ValidationError, match="less than or equal"):
            section(builtin="phrasebook", sentences=MAX_PAIRS[split] + 1)
