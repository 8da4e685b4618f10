import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.evaluation.analysis.flags import FLAGS, count_flags, find_flags

from ..real_text import read_reference, read_system

REFERENCE = "Der Hund schläft seit gestern auf dem alten Sofa."


def test_a_good_translation_has_no_flag() -> None:
    good = "Seit gestern schläft der Hund auf dem alten Sofa."
    source = "The dog has been sleeping on the old sofa since yesterday."
    assert find_flags(good, REFERENCE, source) == frozenset()


@given(st.text(), st.text())
def test_the_reference_itself_has_no_flag(text: str, source: str) -> None:
    assert find_flags(text, text, source) == frozenset()


def test_nothing_is_empty_and_no_more_than_that() -> None:
    assert find_flags(" \u00a0", "Es kostet 99 Euro.") == {"empty"}
    assert find_flags("", " ") == frozenset()


@pytest.mark.parametrize(
    "hypothesis",
    [
        "Der Hund Hund Hund Hund schläft auf dem Sofa.",
        "Der Hund schläft auf dem Sofa, auf dem Sofa, auf dem Sofa.",
        "Er schläft auf dem alten Sofa. Er schläft auf dem alten Sofa.",
        "Der Huuuuuuund schläft auf dem alten Sofa.",
        "Der Hund schläft mit Hut-um-um-um-um-um-um auf dem Sofa.",
        "Der Hund schläft auf dem Sofa . . . . . . . . .",
    ],
)
def test_loops(hypothesis: str) -> None:
    assert find_flags(hypothesis, REFERENCE) == {"repeated"}


def test_loops_without_spaces() -> None:
    assert find_flags("我们去公园去公园去公园去公园玩。", "我们今天下午一起去公园里玩。") == {
        "repeated"
    }


@pytest.mark.parametrize(
    ("hypothesis", "reference"),
    [
        ("Nein, nein, nein!", "Nein, niemals!"),
        ("Es kostet 1.000.000.000.000 Euro.", "Es kostet 1000000000000 Euro."),
        ("Ha ha ha ha, sagte er.", "Hahahahahahaha, sagte er."),
        ("Der Mann, der der Frau hilft", "Ein Mann hilft der Frau hier"),
    ],
)
def test_no_loops(hypothesis: str, reference: str) -> None:
    assert "repeated" not in find_flags(hypothesis, reference)


def test_what_the_source_repeats_may_be_repeated() -> None:
    assert find_flags("ja ja ja ja ja", "jawohl, so ist es", "yes yes yes yes yes") == frozenset()


def test_the_source_is_no_translation() -> None:
    source = "The dog sleeps."
    assert find_flags(source, "Der Hund schläft.", source) == {"untranslated"}
    mostly = "The dog sleeps auf the old sofa."
    assert "untranslated" in find_flags(mostly, REFERENCE, "The dog sleeps on the old sofa.")
    # Nothing is known of the source.
    assert find_flags(source, "Der Hund schläft.") == frozenset()


def test_names_are_the_same_in_both_languages() -> None:
    names = "Barack Obama, Angela Merkel, New York"
    assert find_flags(names, names + ".", names) == frozenset()
    assert find_flags("Film: Star Wars", "Film: Star Wars!", "Film: Star Wars") == frozenset()


@pytest.mark.parametrize(
    ("hypothesis", "reference", "source", "has_flag"),
    [
        ("1.234,5 Meter", "1.234,5 Meter", "1,234.5 metres", False),
        ("1\u202f234,5 Meter", "1.234,50 Meter", "1,234.5 metres", False),
        ("1.235,5 Meter", "1.234,5 Meter", "1,234.5 metres", True),
        ("viele Meter", "1.234,5 Meter", "1,234.5 metres", True),
        # The reference spells it out, and so may the hypothesis, or not.
        ("Hundert Leute", "Einhundert Leute", "100 people", False),
        ("100 Leute", "Einhundert Leute", "100 people", False),
        ("drei Leute", "3 Leute", "3 people", False),
        ("3 Leute", "drei Leute", "three people", False),
        # One in the place of another.
        ("8 Leute", "3 Leute", "3 people", True),
        # Another clock, as in the reference.
        ("um 17 Uhr", "um 17 Uhr", "at 5 pm", False),
        ("im Jahr 1999", "damals", "back then", True),
        # Written otherwise, they are the same numbers.
        ("Zimmer 101 102 103", "Zimmer 101, 102, 103", None, False),
        ("有12万人", "120,000 people", "120 000 Menschen", False),
        ("有13万人", "120,000 people", "120 000 Menschen", True),
        # Without a source, the reference's numbers count.
        ("im Jahr 1999", "im Jahr 1998", None, True),
        ("im Jahr 1998", "damals, 1998", None, False),
    ],
)
def test_numbers(hypothesis: str, reference: str, source: str | None, has_flag: bool) -> None:
    assert ("numbers" in find_flags(hypothesis, reference, source)) == has_flag


@pytest.mark.parametrize(
    ("hypothesis", "reference", "has_flag"),
    [
        ("Mehr auf example.org", "Mehr unter www.example.org", False),
        ("Mehr auf https://example.org/.", "Mehr unter www.example.org", False),
        ("Mehr auf www.exampel.org", "Mehr unter www.example.org", True),
        ("Mehr im Netz", "Mehr unter www.example.org", True),
        ("Mehr auf www.example.org", "Mehr dazu im Netz", True),
        ("Fragen an jo@example.com", "Fragen an jo@example.org", True),
    ],
)
def test_addresses(hypothesis: str, reference: str, has_flag: bool) -> None:
    assert ("urls" in find_flags(hypothesis, reference)) == has_flag


def test_lengths() -> None:
    assert find_flags("Der Hund schläft.", REFERENCE) == {"too short"}
    assert find_flags(REFERENCE, "Der Hund schläft.") == {"too long"}
    # More than twice as long, by less than ten characters.
    assert find_flags("Ja, gewiss", "Ja") == frozenset()
    # White space has no length.
    assert find_flags(f"Der Hund {' ' * 90} schläft.", "Der Hund schläft!") == frozenset()


def test_counts_name_every_flag() -> None:
    counts = count_flags([frozenset(("numbers", "urls")), frozenset(("numbers",)), frozenset()])
    assert counts == dict.fromkeys(FLAGS, 0) | {"numbers": 2, "urls": 1}


def test_known_faults_of_wmt17_systems_are_found() -> None:
    references = read_reference()
    found = {}
    for system in ("FBK", "LIUM-NMT", "online-B", "C-3MA"):
        for line, reference in zip(read_system(system), references, strict=True):
            for flag in find_flags(line, reference):
                found[system, flag] = [*found.get((system, flag), []), line]
    # Read by eye.
    assert any("Freestyle Freestyle Freestyle" in line for line in found["FBK", "repeated"])
    assert any(line.count("The staff were") == 2 for line in found["LIUM-NMT", "repeated"])
    assert all("www.germnews.de" in line for line in found["online-B", "urls"])
    assert any("www.drjoetoy.com" in line for line in found["C-3MA", "urls"])
    # A warning that is everywhere is none.
    assert max(map(len, found.values())) < 0.02 * len(references)
