from mtkit.text.term_forms import annotate, has_symbols, knows_terms
from mtkit.text.vocabulary import Vocabulary


def test_translations_stand_behind_their_terms():
    text = "The cat and (cats)."
    terms = [((13, 17), "Katze"), ((4, 7), "Katze")]
    assert (
        annotate(text, terms)
        == "The<term0> cat<term1> Katze<term2> and (<term0>cats<term1> Katze<term2>)."
    )
    assert annotate("cat", [((0, 3), "Katze")]) == "<term0>cat<term1> Katze<term2>"
    assert annotate(text, []) == text
    assert annotate("a cat sleeps", [((2, 5), "Katze")], [(2, 5)]) == (
        "a<term0><term1> Katze<term2> sleeps"
    )


def test_who_knows_the_symbols():
    assert knows_terms(Vocabulary(("<term0>", "<term1>", "<term2>", "a")))
    assert not knows_terms(Vocabulary(("<term0>", "<term1>", "a")))
    assert has_symbols("a <term1> b")
    assert not has_symbols("a <term> b")
