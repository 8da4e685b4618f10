import pytest

from mtkit.text.term_forms import find_uses


def use_of(text: str, target: str, *, is_case_sensitive: bool = False) -> tuple[str, str | None]:
    (use,) = find_uses(text, [(target, is_case_sensitive)])
    return use.form, None if use.span is None else text[slice(*use.span)]


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        ("Die Katze schläft.", "Katze", ("used", "Katze")),
        ("Die Katzen schlafen.", "Katze", ("inflected", "Katzen")),
        # Forms of Haus, Buch and Mann (Duden).
        ("Vor den Häusern", "Haus", ("inflected", "Häusern")),
        ("Zwei Bücher", "Buch", ("inflected", "Bücher")),
        ("mit dem alten Manne", "alter Mann", ("inflected", "alten Manne")),
        ("KATZE", "Katze", ("used", "KATZE")),
        ("Er ging.", "gehen", ("missed", None)),
        ("Der Kater", "Katze", ("missed", None)),
        ("das Hausboot", "Haus", ("missed", None)),
        ("ein Ei", "Ei", ("used", "Ei")),
        ("ein Eis", "Ei", ("missed", None)),
        ("東京タワー", "東京", ("used", "東京")),
        ("", "Katze", ("missed", None)),
    ],
)
def test_forms(text, target, expected):
    assert use_of(text, target) == expected


def test_capitals_where_they_matter():
    assert use_of("the us", "US", is_case_sensitive=True)[0] == "inflected"
    assert use_of("the US", "US", is_case_sensitive=True) == ("used", "US")


def test_no_word_is_counted_for_two_terms():
    uses = find_uses("Die Katze sieht Katzen.", [("Katze", False)] * 3)
    assert [use.form for use in uses] == ["used", "inflected", "missed"]
    uses = find_uses("Ein Hausboot und ein Boot", [("Boot", False), ("Boot", False)])
    assert [use.form for use in uses] == ["used", "missed"]
