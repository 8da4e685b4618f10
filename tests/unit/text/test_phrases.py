import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.text import glossary, phrases
from mtkit.text.glossary import Glossary, Term
from mtkit.text.phrases import PhraseFinder
from mtkit.text.term_forms import find_uses

WORDS = st.lists(st.sampled_from(["a", "b", "ab", "\0", "a b"[0], "ä"]), max_size=12)


@given(WORDS, st.lists(WORDS.filter(bool), unique_by=tuple, max_size=6))
def test_all_places_are_found(words, wanted):
    found = sorted(PhraseFinder(wanted).find(words))
    # By comparing each phrase with each place.
    expected = [
        (first, index)
        for index, phrase in enumerate(wanted)
        for first in range(len(words))
        if words[first : first + len(phrase)] == phrase
    ]
    assert found == sorted(expected)


def test_what_repeats_itself_is_bounded(monkeypatch):
    monkeypatch.setattr(phrases, "MAX_MATCHES", 50)
    wanted = [["a"] * length for length in range(1, 20)]
    assert len(list(PhraseFinder(wanted).find(["a"] * 1_000))) == 50


@given(WORDS, st.lists(WORDS.filter(bool), max_size=4), st.booleans())
def test_each_use_is_as_if_there_were_no_other_term(words, targets, is_case_sensitive):
    given_targets = [(" ".join(target), is_case_sensitive) for target in targets]
    text = " ".join(words)
    alone = [find_uses(text, [target])[0] for target in given_targets]
    assert find_uses(text, given_targets, shares=True) == alone


def test_terms_of_a_text_are_bounded(monkeypatch):
    monkeypatch.setattr(glossary, "MAX_FOUND", 100)
    terms = [Term("a", f"b{number}", is_forbidden=True) for number in range(30)]
    found = Glossary(terms).find("a " * 1_000)
    # Three places with thirty terms each.
    assert [(each.span, len(each.terms)) for each in found] == [
        ((0, 1), 30),
        ((2, 3), 30),
        ((4, 5), 30),
    ]


def test_places_compared_for_inflected_terms_are_bounded(monkeypatch):
    compared = 0

    def compare(first, second):
        nonlocal compared
        compared += 1
        return False

    monkeypatch.setattr("mtkit.text.term_forms._are_word_forms", compare)
    words = " ".join(f"abcdef{number}" for number in range(2_000))
    targets = [(f"abcxyz{number}", False) for number in range(1_000)]
    assert {use.form for use in find_uses(words, targets, shares=True)} == {"missed"}
    # 64 for each of a thousand words, where each with each would be two million.
    assert compared == 64_000


@pytest.mark.parametrize("count", [1, 3])
def test_a_repeated_term_takes_a_place_each(count):
    uses = find_uses("x a b a b", [("a b", False)] * count)
    assert [use.form for use in uses] == ["used", "used", "missed"][:count]
