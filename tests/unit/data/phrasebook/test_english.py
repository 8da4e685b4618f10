"""English forms; the expected ones are those of any English grammar."""

import pytest

from mtkit.data.phrasebook import english


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("apple", "apples"),
        ("box", "boxes"),
        ("church", "churches"),
        ("story", "stories"),
        ("boy", "boys"),
        ("tomato", "tomatoes"),
        ("radio", "radios"),
        ("actress", "actresses"),
    ],
)
def test_plural(word: str, expected: str) -> None:
    assert english.add_s(word) == expected


@pytest.mark.parametrize(
    ("verb", "irregular", "third_person", "past"),
    [
        ("buy", "bought", "buys", "bought"),
        ("carry", "", "carries", "carried"),
        ("look for", "", "looks for", "looked for"),
        ("go", "went", "goes", "went"),
        ("have breakfast", "had", "has breakfast", "had breakfast"),
        ("watch television", "", "watches television", "watched television"),
        ("close", "", "closes", "closed"),
        ("play", "", "plays", "played"),
    ],
)
def test_verb_forms(verb: str, irregular: str, third_person: str, past: str) -> None:
    assert english.inflect_third_person(verb) == third_person
    assert english.inflect_past(verb, irregular) == past


@pytest.mark.parametrize(
    ("adjective", "comparative", "superlative"),
    [
        ("old", "older", "oldest"),
        ("big", "bigger", "biggest"),
        ("thin", "thinner", "thinnest"),
        ("heavy", "heavier", "heaviest"),
        ("brave", "braver", "bravest"),
        ("clean", "cleaner", "cleanest"),
        ("expensive", "more expensive", "most expensive"),
        ("good", "better", "best"),
        ("famous", "more famous", "most famous"),
        ("hard-working", "more hard-working", "most hard-working"),
        ("clever", "cleverer", "cleverest"),
    ],
)
def test_comparison(adjective: str, comparative: str, superlative: str) -> None:
    assert english.compare_adjective(adjective) == (comparative, superlative)


def test_article_before_a_vowel() -> None:
    assert english.choose_article("apple") == "an"
    assert english.choose_article("red") == "a"
