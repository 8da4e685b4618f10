"""Moses archives."""

import zipfile
from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.recipe.corpora import PairedFileCorpus

from ....corpus_rows import decode_block

# OPUS' names, languages in alphabetical order whichever way one translates.
BOOKS = {
    "Books.de-en.de": b"eins\nzwei\n",
    "Books.de-en.en": b"\xef\xbb\xbfone\r\ntwo\r\n",
    "Books.de-en.xml": b"<cesAlign/>",
    "Books.de-en.ids": b"x\ty\n",
    "README": b"Books",
    "LICENSE": b"free",
}


def corpus_of(folder: Path, members: dict[str, bytes]) -> PairedFileCorpus:
    with zipfile.ZipFile(folder / "de-en.txt.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return PairedFileCorpus(path=folder / "de-en.txt.zip")


def test_the_members_in_the_two_languages_are_read(tmp_path: Path, pairs_of) -> None:
    corpus = corpus_of(tmp_path, BOOKS)
    assert pairs_of(corpus) == [("one", "eins"), ("two", "zwei")]
    assert pairs_of(corpus, "de", "en") == [("eins", "one"), ("zwei", "two")]


def test_members_in_a_folder_and_codes_spelt_otherwise(tmp_path: Path, pairs_of) -> None:
    members = {"moses/": b"", "moses/x.en-pt_br.pt_br": b"um\n", "moses/x.en-pt_br.en": b"one\n"}
    assert pairs_of(corpus_of(tmp_path, members), "en", "pt-BR") == [("one", "um")]


def test_no_member_in_a_language(tmp_path: Path, pairs_of) -> None:
    with pytest.raises(MtkitError) as caught:
        pairs_of(corpus_of(tmp_path, BOOKS), "en", "fr")
    assert caught.value.message.endswith(
        "expected files NAME.en and NAME.fr, found 'Books.de-en.de', 'Books.de-en.en', "
        "'Books.de-en.ids', 'Books.de-en.xml', 'LICENSE', 'README'"
    )


def test_several_pairs_of_members(tmp_path: Path, pairs_of) -> None:
    members = {f"{name}.{code}": b"x\n" for name in ("train", "dev") for code in ("en", "de")}
    with pytest.raises(MtkitError, match=r"2 pairs of files .*: 'dev', 'train'") as caught:
        pairs_of(corpus_of(tmp_path, members))
    assert "unzip it" in caught.value.hint


def test_faults_name_the_member_and_the_line(tmp_path: Path, pairs_of, blocks_of) -> None:
    corpus = corpus_of(tmp_path, BOOKS | {"Books.de-en.en": b"one\n"})
    with pytest.raises(MtkitError, match=r"de-en\.txt\.zip/Books\.de-en\.de:2 is the first witho"):
        pairs_of(corpus)
    corpus = corpus_of(tmp_path, BOOKS | {"Books.de-en.en": b"one\n\xff\n"})
    with pytest.raises(MtkitError, match=r"de-en\.txt\.zip/Books\.de-en\.en:2: byte 1 of the line"):
        pairs_of(corpus)
    [block] = blocks_of(corpus)
    assert decode_block(block, drop_invalid=True) == (["one", "\ufffd"], ["eins", "zwei"], 1)


@pytest.mark.parametrize("damage", ["cut", "no zip", "overwritten"])
def test_a_damaged_archive(tmp_path: Path, pairs_of, damage: str) -> None:
    text = "".join(f"line {number}\n" for number in range(5_000)).encode()
    corpus = corpus_of(tmp_path, {"x.en": text, "x.de": text})
    whole = corpus.path.read_bytes()
    corpus.path.write_bytes(
        {
            "cut": whole[:-10],
            "no zip": b"plain text\n",
            "overwritten": whole[:2000] + b"\x00" * 50 + whole[2050:],
        }[damage]
    )
    with pytest.raises(MtkitError, match=r"de-en\.txt\.zip(/x\.en)?: damaged zip file") as caught:
        pairs_of(corpus)
    expected = "it is not in zip format" if damage == "no zip" else "`unzip -t "
    assert caught.value.hint.startswith(expected)


def test_a_member_with_a_password(tmp_path: Path, pairs_of) -> None:
    corpus = corpus_of(tmp_path, BOOKS)
    content = bytearray(corpus.path.read_bytes())
    # Bit 0 of the flags, 8 bytes into each entry of the central directory: encrypted (APPNOTE
    # 4.4.4); 6 bytes into each local header.
    for signature, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        start = content.find(signature)
        while start >= 0:
            content[start + offset] |= 1
            start = content.find(signature, start + 1)
    corpus.path.write_bytes(content)
    with pytest.raises(MtkitError, match=r"Books\.de-en\.en can't be extracted: .*password"):
        pairs_of(corpus)
