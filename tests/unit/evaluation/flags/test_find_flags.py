"""Flags by hand-made translations: what each of them means, a reader can check."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.checks.text import measure_length_ratio
from mtkit.evaluation.flags import FlagFinder, ScoredLine, count_flagged_lines
from mtkit.recipe.flags import FLAG_NAMES, Flags
from mtkit.text.widths import measure_width

from ..real_text import read_flores, read_reference, read_system

ENGLISH = "The committee will meet again next week to discuss the new budget."
GERMAN = "Der Ausschuss tritt nächste Woche wieder zusammen, um den Haushalt zu beraten."
CHINESE = "委员会下周将再次开会讨论新预算。"
JAPANESE = "委員会は来週再び集まり、新しい予算について話し合う予定です。"


def name_flags(source: str, hypothesis: str, pair: str = "en-de", **limits: object) -> list[str]:
    source_language, target_language = pair.split("-")
    found = ScoredLine(source, hypothesis, source_language, target_language)
    return [flag.name for flag in FlagFinder(Flags(**limits)).find(found)]


@pytest.mark.parametrize(
    ("source", "hypothesis", "pair"),
    [
        (ENGLISH, GERMAN, "en-de"),
        (ENGLISH, CHINESE, "en-zh"),
        (ENGLISH, JAPANESE, "en-ja"),
        (CHINESE, JAPANESE, "zh-ja"),
        (JAPANESE, ENGLISH, "ja-en"),
        # Names are rightly copied, and so are code and loans.
        ("Barack Obama, Angela Merkel, New York", "Barack Obama, Angela Merkel, New York", "en-de"),
        ("Star Wars: The Old Republic", "Star Wars: The Old Republic", "en-de"),
        ("Hotel", "Hotel", "en-de"),
        ("Yes.", "Ja, das stimmt.", "en-de"),
        ("OK!", "好的！", "en-zh"),
        ("はい。", "Ja.", "ja-de"),
        ("...", "…", "en-de"),
        ("?!", "?!", "en-ja"),
        ("42", "42", "en-de"),
        ("", "", "en-de"),
        ("  ", "", "en-de"),
    ],
)
def test_good_translations_have_none(source: str, hypothesis: str, pair: str) -> None:
    assert name_flags(source, hypothesis, pair) == []


def test_a_blank_line_has_none_whatever_was_written() -> None:
    assert name_flags(" ", "Es war einmal ein König, der hatte zwölf Töchter.") == []


def test_nothing_written_is_too_short() -> None:
    assert name_flags(ENGLISH, "") == ["too short"]


@pytest.mark.parametrize(
    ("text", "pair"),
    [(ENGLISH, "en-de"), (CHINESE, "zh-ja"), (JAPANESE, "ja-en"), (GERMAN, "de-zh")],
)
def test_copies_are_in_the_wrong_language_too(text: str, pair: str) -> None:
    assert name_flags(text, text, pair) == ["copied", "wrong language"]


def test_one_copied_clause_of_two() -> None:
    half = "Der Ausschuss berät will meet again next week to discuss the new budget."
    assert "copied" in name_flags(ENGLISH, half, max_copied=0.5)
    assert "copied" not in name_flags(ENGLISH, half, max_copied=0.95)


def test_the_language_that_it_looks_like_is_named() -> None:
    french = "La commission se réunira la semaine prochaine pour examiner le budget."
    (flag,) = FlagFinder(Flags()).find(ScoredLine(ENGLISH, french, "en", "de"))
    assert (flag.name, flag.threshold) == ("wrong language", 0.8)
    assert 0.8 <= flag.found <= 1.0
    assert flag.text.startswith("it looks like fr ")
    assert flag.text.endswith(" rather than de")
    # As models of several languages name them.
    assert name_flags(ENGLISH, french, "eng_Latn-deu_Latn") == ["wrong language"]
    # Too short to tell, not known to the model, or not known at all.
    assert name_flags("Hello, my friend", "Bonjour mon ami", min_letters=30) == []
    assert name_flags(ENGLISH, french, "en-tlh") == []
    assert name_flags(ENGLISH, french, "-") == []


def test_languages_that_are_too_alike_to_tell() -> None:
    danish = "Udvalget mødes igen i næste uge for at drøfte det nye budget."
    assert name_flags(ENGLISH, danish, "en-nb") == []
    # But for a pair of both.
    assert name_flags(danish, danish, "da-nb") == ["copied", "wrong language"]


def test_capitals_are_no_other_language() -> None:
    loud = "DER AUSSCHUSS TRITT NÄCHSTE WOCHE WIEDER ZUSAMMEN, UM DEN HAUSHALT ZU BERATEN."
    assert name_flags(ENGLISH.upper(), loud) == []


@pytest.mark.parametrize(
    ("source", "hypothesis", "has_flag"),
    [
        ("No, no, no!", "Nein, nein, nein!", False),
        ("No, not at all, never!", "Nein, nein, nein, nein!", True),
        ("yes yes yes yes yes", "ja ja ja ja ja", False),
        ("He went to the park.", "Er ging in den Park, in den Park, in den Park.", True),
        ("我们去公园。", "公園へ行く公園へ行く公園へ行く", True),
        ("It costs 1000000000000 euros.", "Es kostet 1000000000000 Euro.", False),
    ],
)
def test_loops(source: str, hypothesis: str, has_flag: bool) -> None:
    assert ("looping" in name_flags(source, hypothesis)) == has_flag


def test_lengths_by_the_formula() -> None:
    names = ("too short", "too long")
    finder = FlagFinder(Flags(names=names))
    # 85 and 25 characters: (25 + 15) / (85 + 15) = 0.4, below 1 / 1.7 = 0.588.
    (short,) = finder.find(ScoredLine("a" * 85, "b" * 25))
    assert (short.name, short.found) == ("too short", 0.4)
    assert short.threshold == pytest.approx(0.5882, abs=1e-4)
    assert short.text == "40% of the expected length"
    (long,) = finder.find(ScoredLine("a" * 25, "b" * 85))
    assert (long.name, long.found, long.threshold) == ("too long", 2.5, 1.7)
    # Where half the characters are expected: (25 + 15) / (42.5 + 15) = 0.70.
    assert (
        FlagFinder(Flags(names=names, length_ratio=0.5)).find(ScoredLine("a" * 85, "b" * 25)) == ()
    )


def test_letters_of_han_are_wider() -> None:
    # 16 characters, three times 15 letters and a full stop, beside 66.
    assert (len(CHINESE), len(ENGLISH)) == (16, 66)
    ratio = measure_length_ratio([(ENGLISH, CHINESE)], measure_width)
    assert ratio == pytest.approx(46 / 66, abs=1e-3)
    assert measure_length_ratio([("", "")], measure_width) == 1.0


@pytest.mark.parametrize(
    ("source", "hypothesis", "others"),
    [
        ("1,234.5 metres", "1.234,5 Meter", ""),
        ("1,234.5 metres", "1.235,5 Meter", "1234.5, 1235.5"),
        ("120,000 people", "有12万人", ""),
        ("120,000 people", "有13万人", "13, 120000"),
        # Spelled out, or in digits where it was not.
        ("100 people", "hundert Leute", ""),
        ("It is the eighteenth.", "Es ist der 18.", ""),
        ("more than two million", "200万以上", ""),
        # No one spells that out.
        ("in 1987", "damals", "1987"),
        ("back then", "im Jahr 1987", "1987"),
        # One in another's stead.
        ("3 people", "8 Leute", "3, 8"),
        # Another clock; another name of a decade.
        ("at 5:30 p.m.", "um 17.30 Uhr", ""),
        ("at 5 p.m. in 1987", "1986 um 17 Uhr", "1986, 1987"),
        ("in the 1980s", "in den 80er Jahren", ""),
        ("in the 1980s", "20 世纪 80 年代", ""),
        ("in the 1980s", "in den 90er Jahren", "90, 1980"),
    ],
)
def test_numbers(source: str, hypothesis: str, others: str) -> None:
    found = FlagFinder(Flags(names=("numbers differ",))).find(ScoredLine(source, hypothesis))
    assert [flag.text for flag in found] == [f"on one side only: {others}"] * bool(others)
    assert [flag.found for flag in found] == [len(others.split(", "))] * bool(others)


@pytest.mark.parametrize(
    ("source", "hypothesis", "others"),
    [
        ("See www.example.org.", "Siehe example.org.", ""),
        ("See https://example.org/a", "详见https://example.org/a。", ""),
        ("See www.example.org", "Siehe www.exampel.org", "exampel.org, example.org"),
        ("Write to jo@example.org", "Schreiben Sie uns", "jo@example.org"),
        ("Write to us", "Schreiben Sie an jo@example.org", "jo@example.org"),
    ],
)
def test_addresses(source: str, hypothesis: str, others: str) -> None:
    found = FlagFinder(Flags(names=("addresses differ",))).find(ScoredLine(source, hypothesis))
    assert [flag.text for flag in found] == [f"on one side only: {others}"] * bool(others)


def test_what_a_model_knows() -> None:
    finder = FlagFinder(Flags(min_log_probability=-1.0, min_coverage=0.5))
    sure = ScoredLine(ENGLISH, GERMAN, "en", "de", mean_log_probability=-0.9, coverage=0.5)
    assert finder.find(sure) == ()
    unsure = ScoredLine(ENGLISH, GERMAN, "en", "de", mean_log_probability=-1.25, coverage=0.25)
    assert [(flag.name, flag.found, flag.threshold) for flag in finder.find(unsure)] == [
        ("unlikely", -1.25, -1.0),
        ("poorly covered", 0.25, 0.5),
    ]


def test_only_those_that_are_asked_for() -> None:
    assert name_flags(ENGLISH, ENGLISH, names=("copied",)) == ["copied"]
    assert name_flags(ENGLISH, ENGLISH, names=()) == []


def test_counts_name_every_flag() -> None:
    finder = FlagFinder(Flags())
    flags = [finder.find(ScoredLine(ENGLISH, each, "en", "de")) for each in (ENGLISH, GERMAN, "")]
    assert count_flagged_lines(flags) == dict.fromkeys(FLAG_NAMES, 0) | {
        "copied": 1,
        "wrong language": 1,
        "too short": 1,
    }
    assert count_flagged_lines(flags, ("copied",)) == {"copied": 1}


@settings(max_examples=40)
@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_can_be_looked_at(source: str, hypothesis: str) -> None:
    found = FlagFinder(Flags()).find(ScoredLine(source, hypothesis, "en", "de"))
    assert all(flag.text for flag in found)


@pytest.mark.parametrize("line", ["a" * 200_000, "1" * 200_000, "ab " * 70_000, "1.1," * 50_000])
def test_a_line_of_any_length_takes_little_time(line: str) -> None:
    # Quadratic searches would take minutes here.
    assert [flag.name for flag in FlagFinder(Flags()).find(ScoredLine(line, "b"))] == ["too short"]


def test_real_text() -> None:
    finder = FlagFinder(Flags())
    english, german, french = map(read_flores, ("en", "de", "fr"))
    rows = list(zip(english[:150], german[:150], french[:150], strict=True))
    good = [finder.find(ScoredLine(source, target, "en", "de")) for source, target, _ in rows]
    # Two of these German numbers aren't the source's: 12:00 for 1200, a left-out 2016.
    assert sum(map(bool, good)) <= 3
    other = [finder.find(ScoredLine(source, target, "en", "de")) for source, _, target in rows]
    assert sum("wrong language" in [flag.name for flag in flags] for flags in other) >= 148


def test_a_known_fault_of_a_wmt17_system() -> None:
    # Read by eye; the reference stands for the source, which isn't among these files.
    found = [
        hypothesis
        for reference, hypothesis in zip(read_reference(), read_system("FBK"), strict=True)
        if "Freestyle Freestyle" in hypothesis
        and "looping" in name_flags(reference, hypothesis, "de-de")
    ]
    assert found
