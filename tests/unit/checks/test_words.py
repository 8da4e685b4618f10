from hypothesis import given
from hypothesis import strategies as st

from mtkit.checks.text import is_unspaced, split_folded_words, split_text


def test_words_numbers_and_marks_are_pieces() -> None:
    assert split_text("It costs 1,234.5 €, Jörg!") == [
        "It", " ", "costs", " ", "1,234.5", " ", "€", ",", " ", "Jörg", "!",
    ]  # fmt: skip


def test_characters_without_spaces_are_words_with_their_marks() -> None:
    assert split_folded_words("我用Python 3。") == ["我", "用", "python", "3"]
    # Thai: consonant and vowel sign belong together.
    assert split_folded_words("กิน") == ["กิ", "น"]


def test_scripts_with_spaces_keep_their_words_whole() -> None:
    assert split_folded_words("हिन्दी में") == ["हिन्दी", "में"]
    assert split_folded_words("한국어 문장") == ["한국어", "문장"]


def test_most_words_decide_whether_a_text_has_spaces() -> None:
    assert is_unspaced(["我用 Python 写程序"])
    assert not is_unspaced(["The sign says 出口 today"])
    assert not is_unspaced([])


@given(st.text())
def test_pieces_are_the_text(text: str) -> None:
    assert "".join(split_text(text)) == text
