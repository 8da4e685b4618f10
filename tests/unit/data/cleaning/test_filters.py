"""Each filter on cases made by hand: a pair that it drops beside one that it just keeps."""

from collections.abc import Callable
from typing import Any

import pytest

from mtkit.data.cleaning.clean import Cleaner
from mtkit.errors import MtkitError

Make = Callable[..., Cleaner]


def drops(cleaner: Cleaner, name: str, source: str, target: str) -> bool:
    """Returns whether a filter drops the pair, and sees to it that no other does."""
    cleaned = cleaner.clean([source], [target])
    assert all(not len(places) for other, places in cleaned.dropped.items() if other != name)
    return bool(len(cleaned.dropped[name]))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("plain", False),
        ("a\x00b", True),
        ("a\x1bb", True),
        ("a\x7fb", True),
        ("a\u0081b", True),
        ("a\ufffdb", True),
        ("a\ufffeb", True),
        ("a\ufdd0b", True),
        ("a\U0001ffffb", True),
        ("a\uf8ffb", True),
        ("a\U000f0000b", True),
        (f"a{chr(0xD800)}b", True),
        ("\u0084gut\u0093\tund \u2028mehr\ufeff", False),
        ("naïve façade – “Größe” … 東京 😀👩\u200d💻", False),
        ("Größe “schön”".encode().decode("cp1252", "replace").replace("\ufffd", ""), True),
        ("fÃ¼r", True),
        ("DÃ©jÃ\u00a0 vu", True),
        # UTF-8 read as Latin-1 leaves C1 controls, or a soft hyphen: "größer", "aquí".
        ("grÃ¶Ã\u009fer", True),
        ("aquÃ\u00ad", True),
        ("Привет".encode().decode("latin-1"), True),
        ("東京".encode().decode("cp1252", "ignore"), True),
        # Real German: a letter of two bytes' value beside a quotation mark or its C1 control.
        ("Er sagte: „bloß“, mehr nicht", False),
        ("\u0084Spaß\u0093", False),
        ("ÜBER „GRÖSSE“ À LA CARTE « été »", False),
        ("das scharfe S »ß«", False),
    ],
)
@pytest.mark.parametrize("side", ["source", "target"])
def test_encoding(make_cleaner: Make, line: str, side: str, *, expected: bool) -> None:
    pair = (line, "x") if side == "source" else ("x", line)
    assert drops(make_cleaner("encoding"), "encoding", *pair) is expected


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ('the character "\ufffd" (U+FFFD)', "das Zeichen »\ufffd« (U+FFFD)", False),
        ('the character "\ufffd" (U+FFFD)', "das Zeichen »\ufffd«", True),
        ("caf\ufffd", "caf\ufffd", True),
        ("a \ufffd\x00 FFFD", "a \ufffd FFFD", True),
    ],
)
def test_text_about_the_replacement_character(
    make_cleaner: Make, source: str, target: str, *, expected: bool
) -> None:
    assert drops(make_cleaner("encoding"), "encoding", source, target) is expected


def test_encoding_off_leaves_all_as_it_is(make_cleaner: Make) -> None:
    cleaner = make_cleaner("length")
    cleaned = cleaner.clean(["a\x00\tb\u0085 "], ["\ufeffb"])
    assert (cleaned.sides[0], cleaned.sides[1]) == (["a\x00\tb\u0085"], ["\ufeffb"])
    assert sum(cleaned.repaired.values()) == 0


@pytest.mark.parametrize(
    ("line", "expected"),
    [("ab", True), ("abc", False), ("a" * 9, False), ("a" * 10, True), ("  ab ", True)],
)
def test_length(make_cleaner: Make, line: str, *, expected: bool) -> None:
    cleaner = make_cleaner("length", min_characters=3, max_characters=9)
    assert drops(cleaner, "length", line, "abcd") is expected
    assert drops(cleaner, "length", "abcd", line) is expected


@pytest.mark.parametrize(
    ("source", "target", "length_ratio", "expected"),
    [
        # (35 + 15) / (10 + 15) = 2, which is allowed.
        (10, 35, 1.0, False),
        (10, 36, 1.0, True),
        (35, 10, 1.0, False),
        (36, 10, 1.0, True),
        # A target of a third of the characters: 100 stand for 33.3, as in Chinese.
        (100, 33, 1 / 3, False),
        (100, 82, 1 / 3, True),
        (100, 9, 1 / 3, True),
        (1, 1, 1 / 3, False),
    ],
)
def test_length_ratio(
    make_cleaner: Make, source: int, target: int, length_ratio: float, *, expected: bool
) -> None:
    cleaner = make_cleaner("length_ratio", length_ratio=length_ratio, max_ratio=2.0, smoothing=15)
    assert drops(cleaner, "length_ratio", "a" * source, "b" * target) is expected


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("New York", "NEW  york", True),
        ("Straße", "STRASSE", True),
        ("ßa", "ssA", True),
        ("a b", "a\u00a0b", True),
        ("New York.", "New York", False),
        ("a b", "ab", False),
    ],
)
def test_identical(make_cleaner: Make, source: str, target: str, *, expected: bool) -> None:
    assert drops(make_cleaner("identical"), "identical", source, target) is expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # 2 of 5 characters that are no spaces, then 2 of 6.
        ("ab 123", False),
        ("ab 1234", True),
        ("12:30", True),
        ("हि 1", False),
        ("???", True),
    ],
)
def test_letters(make_cleaner: Make, line: str, *, expected: bool) -> None:
    cleaner = make_cleaner("letters", min_share=0.4)
    assert drops(cleaner, "letters", line, "text") is expected
    assert drops(cleaner, "letters", "text", line) is expected


@pytest.mark.parametrize(
    ("languages", "source", "target", "expected"),
    [
        (("en", "zh"), "Tokyo", "東京", False),
        (("en", "zh"), "東京", "Tokyo", True),
        (("en", "zh"), "Tokyo", "Tokyo", True),
        # One Han letter weighs as three Latin ones: 3 of 15 is the 0.2 that is asked for.
        (("en", "zh"), "x", "abcdefghijkl 京", False),
        (("en", "zh"), "x", "abcdefghijklm 京", True),
        (("zh-TW", "en"), "東京", "x", False),
        (("en", "ja"), "x", "カタカナ", False),
        (("en", "ja"), "x", "한국어", True),
        (("en", "ko"), "x", "한국어", False),
        (("en", "ru"), "x", "Привет, John", False),
        (("en", "sr"), "x", "Zdravo", True),
        (("en", "sr-Latn"), "x", "Zdravo", False),
        (("en", "sr_Latn"), "x", "Здраво", True),
        (("en", "iw"), "x", "שלום", False),
        (("en", "de"), "12:30", "…", False),
        (("en", "tlh"), "x", "Привет", False),
    ],
)
def test_script(
    make_cleaner: Make, languages: tuple[str, str], source: str, target: str, *, expected: bool
) -> None:
    cleaner = make_cleaner("script", source=languages[0], target=languages[1])
    assert drops(cleaner, "script", source, target) is expected


def test_a_language_without_a_known_script(make_cleaner: Make) -> None:
    (note,) = make_cleaner("script", target="tlh").clean(["x"], ["x"]).notes
    assert "data.cleaning.script can't check the target" in note
    assert "'tlh'" in note
    cleaner = make_cleaner(script={"target": ("Cyrl", "Latn")}, target="tlh")
    assert cleaner.clean(["x"], ["x"]).notes == ()
    assert make_cleaner("length", target="tlh").clean(["x"], ["x"]).notes == ()


def test_scripts_of_ones_own(make_cleaner: Make) -> None:
    for scripts, line, expected in (
        (("Cyrl",), "Zdravo", True),
        (("Cyrl", "Latn"), "Zdravo", False),
        (("Jpan",), "ひらがな", False),
    ):
        cleaner = make_cleaner(
            script={"target": scripts}, identical={"enabled": False}, target="sr-Latn"
        )
        assert bool(len(cleaner.clean(["x y z"], [line]).dropped["script"])) is expected


def test_a_script_that_is_none(make_cleaner: Make) -> None:
    with pytest.raises(MtkitError, match=r'data\.cleaning\.script\.target: unknown script "Klin"'):
        make_cleaner(script={"target": ("Klin",)})


NUMBERS: list[tuple[str, str, bool]] = [
    ("in 2010 and 2011", "2010 und 2011", False),
    ("in 2010 and 2011", "2012 und 2013", True),
    ("in 2010 and 2011", "in zwei Jahren", True),
    ("in 2010", "2011", False),
    ("10,000 and 1,234,567", "10.000 und 1\u00a0234\u00a0567", False),
    ("10,000 and 1,234,567", "10'000 und 1’234’567", False),
    ("10,000 and 25", "10 000 und 25", False),
    ("12.5 % and 13.75 %", "12,5 % und 13,75 %", False),
    ("from 5 to 9", "fünf bis neun", False),
    ("07 and 0042 and 43", "42 und 43", False),
    ("١٢ and ٣٤", "12 und 34", False),
    ("१२ and ३४", "13 und 35", True),
    # One of four is less than the share of 0.3, one of three is more.
    ("11 12 13 14", "11 und 15", True),
    ("11 12 13", "11 und 15", False),
    # Multisets: the second 57 has no partner, which leaves one of four.
    ("57 57 57 57", "57", True),
    # The side without them may spell them out.
    ("50% of 500, and 11", "die Hälfte, und elf", False),
    ("l10n and i18n", "Lokalisierung", False),
    ("50% of 510, and 11", "die Hälfte, und elf", True),
    ("9" * 5_000 + " 17", "9" * 5_000 + " 17", False),
    # Joined or apart, as the other side has it.
    ("Rooms 101 102 103", "101, 102, 103", False),
    ("Rooms 101 102 103", "101, 105 und 103", False),
    ("Rooms 101 102 103", "104, 105, 106", True),
    ("100,200,300", "100, 200 und 300", False),
    ("in June 800 1 200 people", "800, 1200", False),
    ("12,34,567 and 45,67,890", "1,234,567 und 4.567.890", False),
    ("10\u2007000 and 20\u2009500", "10.000 und 20500", False),
    ("１２，５００ and １３，５００", "12'500 13500", False),
    ("030 1234567, 12", "0301234567 12", False),
    ("10,999 and 20,345", "10,998 and 20,344", True),
    ("120,000 and 45", "120 and 50", True),
    ("1,000,000 and 2,500,000", "3,000,000 and 4,500,000", True),
    ("9 " * 3_000 + "1 000", "8, " * 3_000 + "11, 12", True),
    # Units of Chinese, Japanese and Korean.
    ("120,000 and 3,500", "12万と3千5百", False),
    ("35,000 and 48,000", "三万五千和四万八千", False),
    ("1.2 million and 3.5 billion", "120万和35亿", False),
    ("12 million in 2011, 14 million in 2012", "2011年1200万人，2012年1400万人", False),
    ("12 Milliarden und 35", "120億と三十五", False),
    ("1,500,000 and 250,000", "150만 25만", False),
    ("12,500 and 2,500,000", "1万2500 250 万", False),
    ("53,000 and 125,000 people", "5만 3천 명과 12만 5천 명", False),
    ("120 million people, 350 million", "1억 2000만 명, 3억 5000만 원", False),
    ("54,000 and 126,000 people", "5만 3천 명과 12만 5천 명", True),
    ("1 crore and 35 lakh", "10,000,000 and 3,500,000", False),
    ("120,000 and 450,000", "12亿 45亿", True),
    ("120,000 and 35", "13万和三十六", True),
    ("in 2010 and 2011", "二〇一〇年和二〇一一年", False),
    ("in 2010 and 2011", "二〇一二年和二〇一三年", True),
]


@pytest.mark.parametrize(("source", "target", "expected"), NUMBERS)
def test_numbers(make_cleaner: Make, source: str, target: str, *, expected: bool) -> None:
    cleaner = make_cleaner("numbers")
    assert drops(cleaner, "numbers", source, target) is expected
    assert drops(cleaner, "numbers", target, source) is expected


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("see https://example.org/a.", "siehe (http://www.example.org/a)", False),
        ("see https://example.org/a", "siehe https://example.org/b", True),
        ("see www.example.org", "siehe example.org", False),
        ("see WWW.EXAMPLE.ORG/", "siehe www.example.org", False),
        ("see https://example.org", "siehe dort", True),
        ("to ada@example.org", "an ada@example.org.", False),
        ("to ada@example.org", "an eva@example.org", True),
        ("5 eggs @ 2 pounds: see http://", "5 Eier je 2 Pfund", False),
        ("见 https://example.org/a。", "see https://example.org/a", False),
        ("from http://en.wikipedia.org/wiki/A", "aus http://de.wikipedia.org/wiki/B", False),
        ("http://news.bbc.co.uk", "http://www.itv.co.uk", True),
        ("handles ed2k:// links", "verarbeitet ed2k://-Verweise", False),
        # Two of the four addresses match, which is the half that is asked for.
        ("https://a.org https://b.org", "https://a.org https://c.org", False),
        ("https://a.org https://b.org", "https://a.org https://c.org https://d.org", True),
    ],
)
def test_urls(make_cleaner: Make, source: str, target: str, *, expected: bool) -> None:
    assert drops(make_cleaner("urls"), "urls", source, target) is expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ha ha ha ha", False),
        ("ha ha ha ha ha", True),
        ("so ha  ha ha\u00a0ha ha so", True),
        ("ha ha hb ha ha ha", False),
        ("ab cd ab cd ab cd ab cd ab cd", True),
        ("ab cd ab cd ab cd ab cd ab", False),
        ("a b c d " * 5, True),
        ("a b c d " * 4, False),
        ("a b c d e " * 9, False),
        (". . . . . . 7", True),
        ("hahahahahaha", False),
        ("Noooooooo......", False),
        ("哈哈哈哈", False),
        ("他说哈哈哈哈哈。", True),
        ("的是" * 5, True),
        ("的是" * 4 + "的", False),
        ("哈哈哈，哈哈哈", False),
        ("ครับครับครับครับครับ", True),
        ("10 10 10 10 10", True),
    ],
)
def test_repetition(make_cleaner: Make, line: str, *, expected: bool) -> None:
    cleaner = make_cleaner("repetition", max_repeats=4)
    assert drops(cleaner, "repetition", line, "x") is expected
    assert drops(cleaner, "repetition", "x", line) is expected


def test_repetition_ends_with_the_line(make_cleaner: Make) -> None:
    cleaned = make_cleaner("repetition").clean(["哈哈哈 ha ha"] * 9, ["ha ha 哈哈哈"] * 9)
    assert len(cleaned.indices) == 9


@pytest.mark.parametrize(
    ("side", "line"), [("source", " \t"), ("target", ""), ("target", "\ufeff")]
)
def test_blank(make_cleaner: Make, side: str, line: str) -> None:
    settings: dict[str, Any] = {"length": {"enabled": False}}
    pair = (line, "x") if side == "source" else ("x", line)
    assert drops(make_cleaner(**settings), "blank", *pair)
