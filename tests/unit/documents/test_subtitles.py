"""Subtitles: which lines are a cue's text, and that all others stay.

What a cue is in WebVTT is said by the standard's parser (https://www.w3.org/TR/webvtt1/), in SubRip
by what players show.
"""

import random
import re
import time
from collections.abc import Sequence

import pytest

from mtkit.documents.document import LanguageCodes, TranslatedText
from mtkit.documents.formats.subtitles import read_subtitles
from mtkit.documents.translate_file import translate_markup

from .translators import keep_text, reverse_words, take_all

LANGUAGES = LanguageCodes("en", "de")


def write_capitals(texts: Sequence[str]) -> list[TranslatedText]:
    return [TranslatedText(text.upper()) for text in texts]


def translate(page: str, translator: object = write_capitals, form: str = "srt") -> str:
    return translate_markup(page, form, translator, LANGUAGES)  # type: ignore[arg-type]


def see(page: str) -> list[str]:
    """Returns the texts of a page."""
    seen: list[str] = []
    assert translate(page, lambda texts: take_all(texts, seen)) == page
    return seen


_TIMES = "00:00:01,000 --> 00:00:03,000\n"


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        (
            f"1\n{_TIMES}The man,\n\nand a dog.\n\n2\n{_TIMES}Night.",
            ["The man,", "and a dog.", "Night."],
        ),
        (f"1\n{_TIMES}\nThe man.\n\n2\n{_TIMES}\n\n3\n{_TIMES}Night.\n", ["The man.", "Night."]),
        (f"1\n{_TIMES}a b\n \nc d\n\t\n\n\n2\n{_TIMES}e\n", ["a b", "c d", "e"]),
        (
            f"392\n{_TIMES}Hello.\n393\n{_TIMES}No blank\nline.\n{_TIMES}None.",
            ["Hello.", "No blank line.", "None."],
        ),
        (f"1\n{_TIMES}2\n{_TIMES}Hello\n", ["Hello"]),
        (f"1\n{_TIMES}In the year\n1984\n\n2\n{_TIMES}it was\n", ["In the year 1984", "it was"]),
        (f"intro\n{_TIMES}Hello\n\nend\n{_TIMES}Bye\n", ["Hello", "Bye"]),
        (f"1\n{_TIMES}Hello\n\nmore\n{_TIMES}Bye\n", ["Hello", "more", "Bye"]),
        (f"{_TIMES}Hello\x0bthere\u2028now\x85it\n", ["Hello\x0bthere\u2028now\x85it"]),
        (f"1\n{_TIMES}<i>One\n\ntwo</i>\n", ["One", "two"]),
    ],
)
def test_a_cue_of_subrip_goes_to_the_next_ones_number_or_times(page: str, texts: list[str]) -> None:
    for ends in ("\n", "\r\n", "\r"):
        written = page.replace("\n", ends)
        assert see(written) == texts
        expected = written
        for text in texts:
            lines = "\\s+".join(map(re.escape, text.split(" ")))
            expected = re.sub(lines, lambda found: found.group().upper(), expected, count=1)
        assert translate(written) == expected


@pytest.mark.parametrize(
    "times",
    [
        "00:04:40 --> 00:04:41",
        "0:0:4.8 --> 0:0:7.4",
        "00:00:0,500 --> 00:00:2,00",
        "04:40.5-->04:41.25",
        "100:04:40,1234 -->  100:04:41,0000 X1:117 X2:619 Y1:042 Y2:428",
        "00:00:01, 000 --> 00:00:02, 000",
        "00 : 00 : 01 , 000 --> 00 : 00 : 02 , 000",
        " 00:00:01:12 --> 00:00:02:01 line:1",
        "00:00:01,000 -->",
    ],
)
@pytest.mark.parametrize("page", ["7\n{}\nHello there\n", "WEBVTT\n\n7\n{}\nHello there\n"])
def test_times_are_read_however_they_are_written(page: str, times: str) -> None:
    page = page.format(times)
    assert translate(page) == page.replace("Hello there", "HELLO THERE")


_CUE = "00:11.000 --> 00:13.000 line:0\n"


@pytest.mark.parametrize(
    ("page", "texts", "left"),
    [
        (f"WEBVTT\nKind: captions\n\n{_CUE} \nthe<00:11.719><c> cat</c>\n", ["the cat"], []),
        (f"WEBVTT\n\n{_CUE}the man\n \n\n{_CUE}in\nit\n", ["the man", "in it"], []),
        (
            f"WEBVTT x\n\nNOTES-3\n{_CUE}The cat.\n\nREGIONAL\n{_CUE}A dog",
            ["The cat.", "A dog"],
            [],
        ),
        (
            f"WEBVTT\n\nNOTE\n{_CUE}One\n\nSTYLE\n{_CUE}Two\n\nNOTE no\n{_CUE}Three",
            ["One", "Two", "Three"],
            [],
        ),
        (
            f"WEBVTT\n\nNOTE\tof\nit\n\nNOTE\n\nSTYLE \t\na {{}}\n\nREGION\nid:a\n\n{_CUE}A",
            ["A"],
            [],
        ),
        ("WEBVTT\n\nno times\nhere\n", [], ["no times here"]),
        (
            f"WEBVTT\n\n{_CUE}A\n\nSTYLE\nb\n\nSTYLES\nc\n\nNOTEd\n",
            ["A"],
            ["STYLE b", "STYLES c", "NOTEd"],
        ),
        (f"WEBVTT\n\nSTYLES\nb\n\n{_CUE}A\n\n", ["A"], ["STYLES b"]),
        (f"WEBVTT\n{_CUE}One\n{_CUE}Two\n5\n{_CUE}Three\n", ["One", "Two", "Three"], []),
        (f"WEBVTT\n\nNOTE a\nb\n{_CUE}One\n\none\ntwo\n{_CUE}Two", ["One", "Two"], ["one two"]),
        ("WEBVTT", [], []),
        (f"WEBVTT\n\n{_CUE}<v Bob>Hi you\n<v Ann>Bye <c.x.y>now</c>\n", ["Hi you", "Bye now"], []),
    ],
)
def test_only_an_empty_line_ends_a_cue_of_webvtt(
    page: str, texts: list[str], left: list[str]
) -> None:
    for ends in ("\n", "\r\n"):
        written = page.replace("\n", ends)
        assert see(written) == texts
        skipped = read_subtitles(written, LANGUAGES).skipped
        assert [each.text for each in skipped] == left
        assert all(each.reason == "outside of cues" for each in skipped)
        assert all(written[each.start :].startswith(each.text.split()[0]) for each in skipped)


@pytest.mark.parametrize("arrow", ["->", "\u2014>", "==>", "- ->", "\u2192", "--&gt;", "-- >"])
def test_times_with_a_damaged_arrow_stay(arrow: str) -> None:
    page = "1\n00:00:01,000 --> 00:00:02,000\none two\n\n"
    page += f"2\n00:00:03,000 {arrow} 00:00:04,000\nthree four\n"
    expected = page.replace("one two", "TWO ONE").replace("three four", "FOUR THREE")
    assert translate(page, reverse_words) == expected


def test_text_before_the_first_cue_of_subrip_is_left() -> None:
    page = f"Made by me\n\n1\n{_TIMES}Hello\n"
    assert see(page) == ["Hello"]
    (skipped,) = read_subtitles(page, LANGUAGES).skipped
    assert skipped[:4] == (0, "Made by me", "outside of cues", "")


def test_a_file_that_only_begins_like_webvtt_is_none() -> None:
    page = f"WEBVTTX\n{_TIMES}Hello\n\nmore\n"
    assert see(page) == ["Hello", "more"]


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("Eins --> zwei", "Eins --&gt; zwei"),
        ("Eins ---> zwei", "Eins ---&gt; zwei"),
        ("a & <b> > -->", "a &amp; &lt;b> > --&gt;"),
        ("x --", "x --"),
    ],
)
def test_no_translation_has_an_arrow(target: str, wanted: str) -> None:
    page = f"WEBVTT\n\n{_CUE}One -> two > three\n"
    written = translate(page, lambda _: [TranslatedText(target)])
    assert written == f"WEBVTT\n\n{_CUE}{wanted}\n"


def test_no_translation_has_an_empty_line() -> None:
    # The tag moves, and takes its line break from between the others.
    for page in (f"WEBVTT\n\n{_CUE}", f"1\n{_TIMES}"):
        for ends in ("\n", "\r\n"):
            cue = f"{page}one\n<b>\ntwo</b> three\n".replace("\n", ends)
            written = translate(cue, reverse_words)
            assert written.startswith(page.replace("\n", ends))
            rest = written.removeprefix(page.replace("\n", ends)).removesuffix(ends)
            assert all(line.strip() for line in rest.split(ends)), written


def test_large_cues_take_no_time_that_grows_with_their_square() -> None:
    cues = "".join(f"{number}\n{_TIMES}- a\n- b\n\n" for number in range(5_000))
    begin = time.process_time()
    for page in (
        f"1\n{_TIMES}a{' ' * 300_000}b\n{' ' * 300_000}\n{' ' * 300_000}c\n",
        f"1\n{_TIMES}" + "<i>-</i> <b>- a</b>\n" * 10_000,
        f"1\n{_TIMES}" + "-" * 300_000 + "a\n" + "- " * 100_000 + "b",
        f"1\n{_TIMES}a" + "<" * 300_000,
        f"1\n{_TIMES}a<" + "b" * 300_000,
        f"1\n{_TIMES}a" + "{\\" * 300_000,
        f"1\n{'1' * 300_000}\n{_TIMES}a",
        f"1\n{'1:' * 300_000}\n{_TIMES}a" + "-->" * 100_000,
        f"1\n{_TIMES}a" + " " * 300_000 + "-->",
        "WEBVTT\n" + "NOTE\n\n" * 100_000,
        cues,
    ):
        read_subtitles(page, LANGUAGES)
    assert time.process_time() - begin < 20


_LINES = (
    "The cat sleeps.",
    "in the house",
    "<i>A dog</i>",
    "- Yes, it is.",
    "-No",
    "<i>- a <b>b</b></i>",
    "{\\an8}Above it",
    "5",
    "",
    " ",
    "\t",
    "<v Bob>Hi &amp; bye",
    "<c.x>one</c> two",
    "1,000 --> men",
    "<00:00:01.500>word",
    "a -- > b",
    "\u201cHe said\u201d",
    "\U0001f600 \u266a la",
    "<b>",
    "</b>",
)
_NOTES = ("NOTE x\n\n", "NOTE\ntwo\nlines\n\n", "STYLE\n::cue {}\n\n", "no times\n\n")


def make_page(rng: random.Random, form: str) -> tuple[str, list[str]]:
    """Returns subtitles, and the lines in them that stay, in order."""
    page, fixed = ("WEBVTT\n\n", ["WEBVTT"]) if form == "vtt" else ("", [])
    for number in range(rng.randrange(1, 6)):
        if form == "vtt" and rng.random() < 0.2:
            page += rng.choice(_NOTES)
        start, end = (
            rng.choice(["00:00:0{}{}500", "0:0:{}{}5", "00:0{}:07{}250"]).format(
                each, "." if form == "vtt" else ","
            )
            for each in (number, number + 1)
        )
        head = [str(number + 1)] if rng.random() < 0.8 or form == "srt" else []
        head.append(f"{start} --> {end}" + rng.choice(["", " ", " line:0 align:left"]))
        lines = rng.choices(_LINES, k=rng.randrange(4))
        page += "\n".join([*head, *lines]) + rng.choice(["\n\n", "\n\n", "\n", "\n \n\n"])
        fixed += head
    ends = rng.choice(["\n", "\n", "\r\n"])
    return page.replace("\n", ends), fixed


@pytest.mark.parametrize("form", ["srt", "vtt"])
@pytest.mark.parametrize("num_pages", [100, pytest.param(1_000, marks=pytest.mark.patient)])
def test_any_subtitles_keep_their_numbers_and_times(form: str, num_pages: int) -> None:
    rng = random.Random(form)
    for _ in range(num_pages):
        page, fixed = make_page(rng, form)
        ends = "\r\n" if "\r\n" in page else "\n"
        assert translate(page, keep_text) == page
        for translator in (write_capitals, reverse_words):
            written = translate(page, translator)
            lines = iter(written.split(ends))
            assert all(line in lines for line in fixed), (page, written)
            assert re.findall(r"(?m)^.*\d --> \d.*$", written) == re.findall(
                r"(?m)^.*\d --> \d.*$", page
            ), (page, written)
            assert ends == "\n" or not re.search(r"(?<!\r)\n", written), (page, written)
            assert sorted(re.findall(r"<[^<>]*>|\{\\[^{}]*\}", written)) == sorted(
                re.findall(r"<[^<>]*>|\{\\[^{}]*\}", page)
            ), (page, written)


@pytest.mark.parametrize(
    ("form", "cue", "wanted"),
    [
        # The reading of a ruby isn't spoken.
        ("vtt", "<ruby>base<rt>reading</rt></ruby> text", "TEXT <ruby>BASE<rt>reading</rt></ruby>"),
        ("srt", r"{\i1}Hello{\i0} my friend", r"FRIEND MY {\i1}HELLO{\i0}"),
        ("srt", r"{\an8}Hello {\b1}friend{\b0}", r"{\an8}{\b1}FRIEND{\b0} HELLO"),
    ],
)
def test_styles_and_readings_go_with_their_words(form: str, cue: str, wanted: str) -> None:
    head = "WEBVTT\nLanguage: en\n\n" if form == "vtt" else ""
    page = f"{head}00:00:01.000 --> 00:00:02.000\n{cue}\n"
    written = translate_markup(page, form, reverse_words, LanguageCodes("en", "de"))
    assert written == page.replace(cue, wanted).replace("Language: en", "Language: de")
