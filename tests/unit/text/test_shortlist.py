import numpy as np
import pytest

from mtkit.errors import MtkitError
from mtkit.text.shortlist import SHORTLIST_FILE, Shortlist

_SIZES = (8, 12)
_TABLE = Shortlist(
    frequent=np.array([5, 11, 6], np.int32),
    # Source piece 4: 7, 8, 9; source piece 6: 10.
    translations=np.array([7, 8, 9, 10], np.int32),
    ends=np.array([0, 0, 0, 0, 3, 3, 4, 4]),
)


def test_a_list_holds_special_and_frequent_pieces_and_translations():
    found = _TABLE.find([[4, 3], [6, 6, 3], [3]], _SIZES[1])
    lists = [np.flatnonzero(row).tolist() for row in found]
    assert lists == [
        [0, 1, 2, 3, 5, 6, 7, 8, 9, 11],
        [0, 1, 2, 3, 5, 6, 10, 11],
        [0, 1, 2, 3, 5, 6, 11],
    ]


def test_fewer_pieces_are_the_first():
    limited = _TABLE.limit(1, 2)
    assert limited.frequent.tolist() == [5]
    assert [limited.list_translations(piece).tolist() for piece in range(8)] == [
        [], [], [], [], [7, 8], [], [10], [],
    ]  # fmt: skip


def test_lines_with_a_piece_beyond_their_list_are_counted():
    sources, targets = [[4, 3], [4, 3], [6, 3]], [[7, 5, 3], [7, 10, 3], [10, 3]]
    assert _TABLE.count_lines_missing(sources, targets, _SIZES[1]) == 1


def test_a_table_comes_back(tmp_path):
    _TABLE.save(tmp_path)
    found = Shortlist.load(tmp_path, _SIZES)
    for name, expected in vars(_TABLE).items():
        assert np.array_equal(getattr(found, name), expected), name


@pytest.mark.parametrize(
    "table",
    [
        Shortlist(_TABLE.frequent, np.array([7, 8, 9, 12], np.int32), _TABLE.ends),
        Shortlist(_TABLE.frequent, np.array([7, 8, 9, -1], np.int32), _TABLE.ends),
        Shortlist(_TABLE.frequent, _TABLE.translations, _TABLE.ends[:-1]),
        Shortlist(_TABLE.frequent, _TABLE.translations, _TABLE.ends + 1),
        Shortlist(_TABLE.frequent, _TABLE.translations, _TABLE.ends[::-1].copy()),
    ],
)
def test_another_vocabularys_table_is_refused(tmp_path, table):
    table.save(tmp_path)
    with pytest.raises(MtkitError, match=r"shortlist\.safetensors: damaged, or of another vocab"):
        Shortlist.load(tmp_path, _SIZES)


@pytest.mark.parametrize("content", [b"", b"\xff" * 40, b"x" * 100_000])
def test_a_damaged_file_is_refused(tmp_path, content):
    (tmp_path / SHORTLIST_FILE).write_bytes(content)
    with pytest.raises(MtkitError, match=r"shortlist\.safetensors: "):
        Shortlist.load(tmp_path, _SIZES)


def test_a_model_without_a_table_says_how_to_make_one(tmp_path):
    with pytest.raises(MtkitError, match="no short lists in this model folder") as caught:
        Shortlist.load(tmp_path, _SIZES)
    assert "mtkit average" in caught.value.hint
