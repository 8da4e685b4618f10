"""Blocks by positions in bytes, against lines that Python splits."""

import gzip
from pathlib import Path

import pytest

from mtkit.data.sources.byte_blocks import BlockFile


def split(content: bytes, block_bytes: int, path: Path) -> list[bytes]:
    path.write_bytes(content)
    file = BlockFile(path, block_bytes, is_sequential=False)
    return [file.read(number).content for number in range(file.count())]


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 5, 7, 100])
def test_a_block_has_the_lines_that_begin_in_it(block_bytes: int, tmp_path: Path) -> None:
    content = b"a\n\nbcd\nefghijklmno\np\n\nq"
    expected: dict[int, bytes] = {}
    start = 0
    for line in content.splitlines(keepends=True):
        number = start // block_bytes
        expected[number] = expected.get(number, b"") + line
        start += len(line)
    found = split(content, block_bytes, tmp_path / "a")
    assert found == [expected.get(number, b"") for number in range(len(found))]
    assert b"".join(found) == content
    # Compressed, one after the other.
    (tmp_path / "a.gz").write_bytes(gzip.compress(content))
    file = BlockFile(tmp_path / "a.gz", block_bytes, is_sequential=True)
    assert file.count() == len(found)
    blocks = list(file.read_some(range(len(found))))
    assert [block.content for block in blocks] == found
    lines = [1 + b"".join(found[:number]).count(b"\n") for number in range(len(found))]
    assert [block.first_line for block in blocks] == lines


def test_a_line_is_located_by_what_is_before_its_block(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\ntwo\nthree\nfour\n")
    file = BlockFile(tmp_path / "a", 5, is_sequential=False)
    # The third and last line that begins before byte 10 is "three", at 8.
    block = file.read(1)
    assert block.content == b"three\n"
    assert file.locate(block, block.base_line) == f"{tmp_path / 'a'}:3"
