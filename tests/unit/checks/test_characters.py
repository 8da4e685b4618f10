"""What kind of character each code point is; counts against Python's own unicodedata."""

import unicodedata

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mtkit.checks.text import CharacterKind, build_table, is_script, read_code_points

TABLE = build_table(["Latn"], ["Hani", "Hira", "Kana"])
# Characters that a random draw from all of Unicode would hardly bring.
ODD = st.sampled_from("\n\r\t\x00\x1c\x85\xa0\xad\u200b\u2028\ufeff\ufffd\ue000٣Ⅷ²あ中ー😀é\u0301")
LINES = st.lists(st.text(ODD | st.characters(exclude_categories=["Cs"]), max_size=20), max_size=8)


@given(LINES)
def test_counts_are_those_of_a_loop_over_unicodedata(lines: list[str]) -> None:
    text = read_code_points(lines, TABLE)
    assert text.lengths.tolist() == [len(line) for line in lines]
    for kind, category in (
        (CharacterKind.LETTER, "L"),
        (CharacterKind.MARK, "M"),
        (CharacterKind.NUMBER, "N"),
    ):
        counted = [sum(unicodedata.category(c)[0] == category for c in line) for line in lines]
        assert text.count(kind).tolist() == counted
    both = [sum(unicodedata.category(c)[0] in "LM" for c in line) for line in lines]
    assert text.count(CharacterKind.LETTER | CharacterKind.MARK).tolist() == both
    assert text.count(CharacterKind.DECIMAL).tolist() == [
        sum(map(str.isdecimal, line)) for line in lines
    ]
    assert text.count(CharacterKind.SPACE).tolist() == [
        sum(map(str.isspace, line)) for line in lines
    ]


def kinds(characters: str) -> list[int]:
    return TABLE[[ord(character) for character in characters]].tolist()


def test_what_is_broken() -> None:
    # Unicode 15.0, section 23.7: 66 noncharacters; category Cc has 65, Cs 2,048, Co 137,468.
    broken = np.flatnonzero(TABLE & CharacterKind.BROKEN)
    assert len(broken) == 66 + 65 + 2_048 + 137_468 + 1
    assert 0xFFFD in broken
    assert all(
        kind & CharacterKind.BROKEN == 0 for kind in kinds("a ä中\u00a0\u200d\u200c\u00ad\u2028€")
    )


def test_scripts() -> None:
    latin, han, kana = (
        int(CharacterKind.SOURCE_SCRIPT),
        int(CharacterKind.TARGET_SCRIPT),
        int(CharacterKind.TARGET_SCRIPT),
    )
    both = int(CharacterKind.SOURCE_SCRIPT | CharacterKind.TARGET_SCRIPT)
    assert [kind & both for kind in kinds("aßŁ中々ひカЖ한1!")] == [
        *(latin, latin, latin, han, han, kana, kana, 0, 0, 0, 0),
    ]
    # The mark for a long vowel, U+30FC, and a modifier letter are Common (Scripts.txt).
    assert [bool(kind & CharacterKind.SCRIPTED) for kind in kinds("aЖ中ー\u02bc1")] == [
        *(True, True, True, False, False, False),
    ]
    assert [bool(kind & CharacterKind.UNSPACED) for kind in kinds("中ひไកaЖ한")] == [
        *(True, True, True, True, False, False, False),
    ]


def test_which_scripts_there_are() -> None:
    assert all(map(is_script, ("Latn", "Cyrl", "Hani", "Deva", "Latin")))
    assert not any(map(is_script, ("Xxxx", "Latn}|.", "", "Zyyy", "Zinh")))
