import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.text.words import find_owners, find_words, map_back


def test_words_are_runs_without_space() -> None:
    text = "  Ein Mann,\tder\u3000lacht. "
    words = find_words(text, [(0, 4), (4, 7), (7, 11), (11, len(text))])
    assert [text[start:end] for start, end in words] == ["Ein", "Mann,", "der", "lacht."]


def test_scripts_without_spaces_are_cut_where_pieces_end() -> None:
    text = "用Python写 网页。好"
    pieces = [(0, 1), (1, 3), (3, 7), (7, 8), (8, 11), (11, 12), (12, 13)]
    words = find_words(text, pieces)
    # Not within Python, though a piece ends there.
    assert [text[start:end] for start, end in words] == ["用", "Python", "写", "网页", "。", "好"]


@given(st.text("ab 漢。\u3000\n", max_size=20), st.lists(st.integers(0, 20)))
def test_words_hold_every_character_that_is_no_space(text: str, cuts: list[int]) -> None:
    ends = sorted({min(cut, len(text)) for cut in cuts} | {len(text)})
    pieces = list(zip([0, *ends], ends, strict=False))
    words = find_words(text, pieces)
    assert "".join(text[start:end] for start, end in words) == "".join(text.split())
    assert all(start < end for start, end in words)
    owners = find_owners(pieces, words)
    for (start, end), owner in zip(pieces, owners, strict=True):
        touched = [index for index, word in enumerate(words) if start < word[1] and word[0] < end]
        assert owner == (touched[0] if touched else -1)


def test_pieces_that_take_no_room_belong_to_no_word() -> None:
    assert find_owners([(0, 0), (0, 2), (2, 3), (3, 3), (2, 5)], [(0, 2), (3, 5)]) == [
        -1,
        0,
        -1,
        -1,
        1,
    ]


@pytest.mark.parametrize(
    ("original", "changed", "word", "expected"),
    [
        ("« Bonjour » !", '"Bonjour"!', "Bonjour", "Bonjour"),
        ("« Bonjour » !", '"Bonjour"!', '"', "« "),
        ("a b", "a b", "b", "b"),
        ("x…y", "x...y", "...", "…"),
        ("", "", "", ""),
    ],
)
def test_stretches_of_changed_text_stand_in_the_original(
    original: str, changed: str, word: str, expected: str
) -> None:
    start = changed.index(word)
    [(first, last)] = map_back([(start, start + len(word))], changed, original)
    assert original[first:last] == expected


def test_a_very_long_text_is_mapped_by_its_length() -> None:
    assert map_back([(0, 5_000), (5_000, 10_000)], "a" * 10_000, "b" * 5_000) == [
        (0, 2_500),
        (2_500, 5_000),
    ]
