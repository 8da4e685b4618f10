from pathlib import Path

import pytest

from mtkit.data.preparation.carry_links import carry_links
from mtkit.data.sources.corpora import check_corpus, input_files, read_blocks
from mtkit.data.sources.pharaoh import parse_links, read_links, write_links
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import FileTrainingCorpus

LANGUAGES = ("en", "de")


@pytest.fixture
def corpus(tmp_path: Path) -> FileTrainingCorpus:
    (tmp_path / "a.en").write_bytes(b"a b c\nd\ne f\n")
    # A carriage return ends no word, and U+00A0 is inside one.
    (tmp_path / "a.de").write_bytes("x y\r\nz\u00a0z\nu v w\n".encode())
    (tmp_path / "a.align").write_text("0-0 2-1\n0-0\n\n")
    return FileTrainingCorpus(
        source=tmp_path / "a.en", target=tmp_path / "a.de", alignments=tmp_path / "a.align"
    )


def read(corpus: FileTrainingCorpus, pairs_per_block: int = 2) -> list[set[tuple[int, int]]]:
    found = []
    blocks = read_blocks(corpus, index=0, rows_per_block=pairs_per_block, languages=LANGUAGES)
    for block in blocks:
        links = read_links(block.decode(drop_invalid=False))
        assert links is not None
        found += links
    return found


@pytest.mark.parametrize("pairs_per_block", [1, 2, 10])
def test_a_line_for_each_pair(corpus: FileTrainingCorpus, pairs_per_block: int) -> None:
    assert read(corpus, pairs_per_block) == [{(0, 0), (2, 1)}, {(0, 0)}, set()]
    assert corpus.alignments in input_files(corpus)
    check_corpus(corpus, languages=LANGUAGES)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0-0\n0-0\n", "a.en has 3 lines, but "),
        ("0-0\n0-0\n\n\n0-0\n", "a.align has 5: both"),
        ("0-0\n0:0\n\n", "a.align:2: '0:0' isn't a link"),
        ("0-0\n0-0\n1p1\n", "a.align:3: '1p1' isn't a link"),
        ("0-0 -1-0\n\n\n", "a.align:1: '-1-0' isn't a link"),
        ("0-\n\n\n", "a.align:1: '0-' isn't a link"),
        ("0-0\n\u0661-0\n\n", "isn't a link"),
        ("0-0\n" + "9" * 50 + "-0\n\n", "isn't a link"),
        ("3-0\n\n\n", "a.align:1: link 3-0, but the source has 3 words"),
        ("0-0\n\n1-3\n", "a.align:3: link 1-3, but the target has 3 words"),
    ],
)
def test_what_is_wrong_is_told(corpus: FileTrainingCorpus, content: str, message: str) -> None:
    assert corpus.alignments is not None
    corpus.alignments.write_text(content)
    with pytest.raises(MtkitError) as raised:
        read(corpus)
    assert message in str(raised.value)


def test_bytes_that_are_no_text(corpus: FileTrainingCorpus) -> None:
    assert corpus.alignments is not None
    corpus.alignments.write_bytes(b"\xff\x00\xfe\n\n\n")
    with pytest.raises(MtkitError, match=r"a\.align:1: byte 1 of the line is invalid UTF-8"):
        read(corpus)
    with pytest.raises(MtkitError, match="isn't a link"):
        check_corpus(corpus, languages=LANGUAGES)


def test_a_missing_or_empty_file(corpus: FileTrainingCorpus) -> None:
    assert corpus.alignments is not None
    corpus.alignments.write_text("")
    with pytest.raises(MtkitError, match="empty file"):
        check_corpus(corpus, languages=LANGUAGES)
    corpus.alignments.unlink()
    with pytest.raises(MtkitError, match="no such file"):
        check_corpus(corpus, languages=LANGUAGES)


def test_lines_behind_max_pairs_are_no_fault(corpus: FileTrainingCorpus) -> None:
    assert read(corpus.model_copy(update={"max_pairs": 2})) == [{(0, 0), (2, 1)}, {(0, 0)}]


def test_links_are_written_in_order() -> None:
    links = parse_links(" 1-0  0-1\t0-1", (2, 2), "here")
    assert write_links(links) == "0-1 1-0"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        # Nothing changed; a tab became a space.
        (("a b", "x y"), ("a b", "x y"), {(0, 0), (1, 1)}),
        (("a\tb", "x y"), ("a b", "x y"), {(0, 0), (1, 1)}),
        # A space came between two characters, or went.
        (("a b", "xx y"), ("a b", "x x y"), {(0, 0), (0, 1), (1, 2)}),
        (("a b", "x y"), ("ab", "x y"), {(0, 0), (0, 1)}),
        # U+00A0 is a space of another kind, inside a word; here it became one between words.
        (("a b", "x\u00a0x y"), ("a b", "x x y"), {(0, 0), (0, 1), (1, 2)}),
        # A quotation mark became another: as many words.
        (("a “b", "x y"), ('a "b', "x y"), {(0, 0), (1, 1)}),
        # Other characters, another number of words.
        (("a b", "x y"), ("a … b", "x y"), None),
    ],
)
def test_links_after_repairs(before, after, expected) -> None:
    assert carry_links({(0, 0), (1, 1)}, before, after) == expected
