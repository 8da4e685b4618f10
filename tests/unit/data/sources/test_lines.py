"""Lines out of files, packed or not, and what is said of files that are wrong."""

import bz2
import errno
import gzip
import io
import lzma
import os
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from mtkit.data.sources import lines as lines_module
from mtkit.data.sources.corpora import read_blocks
from mtkit.data.sources.lines import LineReader, read_lines
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import FileCorpus, PairedFileCorpus


def zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


PACKERS = {
    ".txt": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
}


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(PACKERS[path.suffix](content))
    return path


@pytest.mark.parametrize("ending", PACKERS)
@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\nb\r", ["a", "b"]),
        (b"a\r\r\n\rb\n", ["a\r", "\rb"]),
        (b"a\n\nb\n", ["a", "", "b"]),
        (b"a\n\n", ["a", ""]),
        (b"\n", [""]),
        (b"", []),
        # U+0085 and U+2028 end a line for str.splitlines, and a lone \r in universal newlines.
        ("Mr\u0085 X\u2028y\rz\n".encode(), ["Mr\u0085 X\u2028y\rz"]),
        ("Köln\n東京\n".encode(), ["Köln", "東京"]),
        # Only at a file's start is it a byte-order mark; elsewhere it is a character.
        (b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n", ["one", "\ufefftwo"]),
    ],
)
def test_lines(tmp_path: Path, ending: str, content: bytes, lines: list[str]) -> None:
    assert list(read_lines(write(tmp_path / f"text{ending}", content))) == lines


@pytest.mark.parametrize("ending", PACKERS)
def test_lines_across_the_buffer(tmp_path: Path, ending: str) -> None:
    lines = [f"{number} " + "x" * (number % 300) for number in range(20_000)]
    content = "".join(f"{line}\n" for line in lines).encode()
    assert list(read_lines(write(tmp_path / f"text{ending}", content))) == lines


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_parts_packed_one_by_one_are_one_text(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"text{ending}"
    path.write_bytes(PACKERS[ending](b"one\ntw") + PACKERS[ending](b"o\nthree\n"))
    assert list(read_lines(path)) == ["one", "two", "three"]


def test_an_ending_in_capitals(tmp_path: Path) -> None:
    (tmp_path / "TEXT.GZ").write_bytes(gzip.compress(b"one\n"))
    assert list(read_lines(tmp_path / "TEXT.GZ")) == ["one"]


def test_a_fault_in_utf8_is_told_by_file_line_and_byte(tmp_path: Path) -> None:
    path = tmp_path / "latin.de"
    path.write_bytes(b"gut\n" * 10_000 + "schön\n".encode("latin-1"))
    with pytest.raises(MtkitError) as caught:
        list(read_lines(path))
    assert f"{path}:10001: byte 4 of the line is invalid UTF-8 (0xf6)" in caught.value.message


@pytest.mark.parametrize(
    ("ending", "kind", "damage"),
    [
        (ending, kind, damage)
        for ending, kind in ((".gz", "gzip"), (".bz2", "bzip2"), (".xz", "xz"), (".zst", "zstd"))
        for damage in ("cut", "overwritten", "plain text")
        # pyarrow writes zstd without the checksum that would tell.
        if (kind, damage) != ("zstd", "overwritten")
    ],
)
def test_a_damaged_file(tmp_path: Path, ending: str, kind: str, damage: str) -> None:
    path = tmp_path / f"text{ending}"
    whole = PACKERS[ending]("".join(f"line {number}\n" for number in range(50_000)).encode())
    middle = len(whole) // 2
    path.write_bytes(
        {
            "cut": whole[:middle],
            "overwritten": whole[:middle] + b"\x00" * 200 + whole[middle + 200 :],
            "plain text": b"one\ntwo\n",
        }[damage]
    )
    # Lines that a decompressor hasn't passed on yet aren't counted.
    message = rf"text\{ending}: damaged {kind} file( after line [1-9]\d*)?: "
    with pytest.raises(MtkitError, match=message) as told:
        list(read_lines(path))
    if damage == "plain text":
        assert (
            told.value.hint == f"it is not in {kind} format: if it is plain text, rename it to text"
        )
    else:
        assert told.value.hint.startswith(f"`{kind} -t {path}` shows more")


def test_lines_before_the_damage_are_counted(tmp_path: Path) -> None:
    # Stored without compression, so that all but the checksum can be read.
    packed = gzip.compress(b"line\n" * 100_000, compresslevel=0)
    path = tmp_path / "text.gz"
    path.write_bytes(packed[:-8])
    with LineReader.open(path) as reader, pytest.raises(MtkitError) as caught:
        reader.take(1_000_000)
    number = int(caught.value.message.split("after line ")[1].split(":")[0])
    # What was in the buffer is lost.
    assert 0 < number <= 100_000


def test_the_rest_is_counted_however_it_ends(tmp_path: Path) -> None:
    for content, count in ((b"", 0), (b"a\nb\n", 2), (b"a\nb", 2), (b"\n\n\n", 3)):
        path = write(tmp_path / "rest.gz", b"first\n" + content)
        with LineReader.open(path) as reader:
            assert reader.take(1) == [b"first\n"]
            reader.count_rest()
            assert reader.num_taken == 1 + count


@pytest.mark.parametrize(
    ("name", "content", "hint"),
    [
        (
            "text",
            gzip.compress(b"one\n", mtime=0),
            "it is compressed with gzip: rename it to text.gz",
        ),
        ("text", lzma.compress(b"one\n"), "it is compressed with xz: rename it to text.xz"),
        ("text", zstd(b"one\n"), "it is compressed with zstd: rename it to text.zst"),
        ("text", bz2.compress(b"one\n"), "it is compressed with bzip2: rename it to text.bz2"),
        (
            "text.en",
            "eins\n".encode("utf-16"),
            "it is UTF-16; convert it: iconv -f UTF-16 -t UTF-8 /",
        ),
        ("text.de", "schön\n".encode("latin-1"), "iconv -f WINDOWS-1252"),
    ],
    ids=["gzip", "xz", "zstd", "bzip2", "utf-16", "latin-1"],
)
def test_what_a_file_is_when_it_is_no_utf8(
    tmp_path: Path, name: str, content: bytes, hint: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(MtkitError) as caught:
        list(read_lines(tmp_path / name))
    assert hint in caught.value.hint


def test_a_missing_file_that_is_there_under_a_similar_name(tmp_path: Path) -> None:
    write(tmp_path / "train.en.zst", b"x\n")
    with pytest.raises(MtkitError, match=r"train\.en: no such file") as caught:
        list(read_lines(tmp_path / "train.en"))
    assert caught.value.hint == f"there is {tmp_path / 'train.en.zst'}: use that"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(MtkitError, match="a folder, not a file"):
        list(read_lines(tmp_path))


def test_the_folder_one_stands_in_is_no_file_either() -> None:
    with pytest.raises(MtkitError, match=r"^\.: a folder, not a file"):
        list(read_lines(Path()))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_with_a_name_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"a\n\nb\r\n",))
    writer.start()
    assert list(read_lines(pipe)) == ["a", "", "b"]
    writer.join()


class _BrokenDisk(io.BytesIO):
    """A file of which a block can't be read."""

    def readline(self, *_: object) -> bytes:
        raise AssertionError("lines are iterated over")

    def __next__(self) -> bytes:
        if self.tell() >= 40:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().__next__()


def test_a_block_of_the_disk_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"text\n" * 20)
    monkeypatch.setattr(lines_module, "open_location", lambda path: _BrokenDisk(path.read_bytes()))
    with pytest.raises(MtkitError, match=r"a\.txt: can't be read after line 8: Input/output error"):
        list(read_lines(path))


def test_a_corpus_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("a\tb\n" * 3_000)
    blocks = read_blocks(PairedFileCorpus(path=path), languages=("en", "de"))
    next(blocks)
    with path.open("a") as stream:
        stream.write("c\td\n")
    with pytest.raises(MtkitError, match=r"a\.tsv: changed while it was being read"):
        list(blocks)


def test_a_file_without_lines_against_one_with_some(tmp_path: Path) -> None:
    (tmp_path / "a.en.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "a.de").write_bytes(b"eins\nzwei\n")
    for first, other in (("a.en.gz", "a.de"), ("a.de", "a.en.gz")):
        corpus = FileCorpus(source=tmp_path / first, target=tmp_path / other)
        with pytest.raises(MtkitError, match="both must have the same number of lines"):
            list(read_blocks(corpus))
