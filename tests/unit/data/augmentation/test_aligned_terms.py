"""Terms of linked pairs, by links that are written by hand."""

import re
from pathlib import Path
from random import Random

import pytest

from mtkit.data.augmentation.aligned_terms import LinkedPair, TermLexicon, find_linked_terms
from mtkit.data.augmentation.augment import AlignedTermAnnotator, Augmenter, Links
from mtkit.data.word_alignment.word_table import find_aligned_words
from mtkit.recipe.augment import Augment, Terms
from mtkit.text.words import find_between_spaces

COMMON = ({"the", "a", "of", "and"}, {"der", "die", "das", "von", "und"})


def find(source, target, links, *, find_words=find_aligned_words):
    found = find_linked_terms(LinkedPair(source, target, links, find_words), COMMON)
    return {(source[slice(*term.source)], target[slice(*term.target)]) for term in found}


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        # Words that stand together are a term as well; across an article there is none.
        (
            "The old cat sees a dog",
            "Die alte Katze sieht Hunde",
            "0-0 1-1 2-2 3-3 4-4 5-4",
            {
                ("old", "alte"),
                ("cat", "Katze"),
                ("sees", "sieht"),
                ("old cat", "alte Katze"),
                ("cat sees", "Katze sieht"),
                ("old cat sees", "alte Katze sieht"),
            },
        ),
        # Two words for one, one for two.
        ("polar bears sleep", "Eisbären schlafen", "0-0 1-0", {("polar bears", "Eisbären")}),
        ("skyscrapers", "hohe Häuser", "0-0 0-1", {("skyscrapers", "hohe Häuser")}),
        # The other way round: together a term; a word that is moved away is one by itself.
        ("eats bread", "Brot isst", "0-1 1-0", {("eats", "isst"), ("bread", "Brot")}
            | {("eats bread", "Brot isst")}),
        ("gives up smoking", "gibt Rauchen auf", "0-0 1-2 2-1",
            {("gives", "gibt"), ("up", "auf"), ("smoking", "Rauchen")}
            | {("up smoking", "Rauchen auf"), ("gives up smoking", "gibt Rauchen auf")}),
        # A translation with an article in it, or in two places, is none.
        ("cats sleep", "die Katzen schlafen", "0-0 0-1 1-2", {("sleep", "schlafen")}),
        ("sleeps in", "schläft lange aus", "0-0 0-2 1-1",
            {("in", "lange"), ("sleeps in", "schläft lange aus")}),
        # Numbers, signs and parts of longer words.
        ("12 cats!", "12 Katzen!", "0-0 1-1 2-2", {("cats", "Katzen")}),
        ("a T-shirt, red", "das T-Shirt, rot", "1-1 2-2 3-3 4-4 5-5", {("red", "rot")}),
        ("the dog's bone", "der Knochen", "1-1 2-1 3-1", set()),
        ("cats, dogs", "Katzen, Hunde", "0-0 1-1 2-2", {("cats", "Katzen"), ("dogs", "Hunde")}),
        # A character is a word where no spaces are.
        ("black cats", "黑猫", "0-0 1-1",
            {("black", "黑"), ("cats", "猫"), ("black cats", "黑猫")}),
        ("cats", "Katzen", "", set()),
    ],
)  # fmt: skip
def test_terms_of_a_pair(source, target, links, expected):
    assert find(source, target, links) == expected


def test_a_run_of_four_words_is_too_long():
    words = "one two three four"
    found = find(words, words, "0-0 1-1 2-2 3-3")
    assert max(len(source.split()) for source, _ in found) == 3
    assert find("bears", "vier gar lange Wörter", "0-0 0-1 0-2 0-3") == set()


def test_links_of_a_corpus_count_words_between_spaces():
    found = find(
        "“Cats, sleep!”",
        "„Katzen, schlaft!“",
        "0-0 1-1",
        find_words=find_between_spaces,
    )
    assert found == {("Cats", "Katzen"), ("sleep", "schlaft")}


TRANSLATIONS = {
    "cat": {"Katze": 6, "Katzen": 1, "Kater": 2},
    "cats": {"Katzen": 3, "Katze": 1},
    "house": {"Haus": 4, "Hause": 2},
    "houses": {"Häuser": 3, "Häusern": 2},
    "housing": {"Wohnung": 9},
    "hand": {"Hand": 2},
    "trade": {"Handel": 9},
    "polar bear": {"Eisbär": 2},
    "polar bears": {"Eisbären": 1},
    "at": {"an": 1},
}


@pytest.mark.parametrize(
    ("source", "target", "base"),
    [
        # Katze 6 + 1, Katzen 1 + 3.
        ("cats", "Katzen", "Katze"),
        ("Cat", "Katze", "Katze"),
        # Kater shares two letters with Katze: no form of it.
        ("cat", "Kater", "Kater"),
        # Haus 4, Häuser 3, Hause 2, Häusern 2; Wohnung begins otherwise.
        ("houses", "Häusern", "Haus"),
        # Handel looks like a form of Hand, but stands for another word.
        ("hand", "Hände", "Hand"),
        ("polar bears", "Eisbären", "Eisbär"),
        # What isn't known keeps its own form.
        ("dogs", "Hunde", "Hunde"),
        ("cats", "Tiere", "Tiere"),
        ("at", "an", "an"),
    ],
)
def test_a_translation_is_given_in_the_most_frequent_form(source, target, base, tmp_path):
    lexicon = TermLexicon((set(), set()), TRANSLATIONS)
    assert lexicon.find_base(source, target) == base
    lexicon.save(tmp_path / "lexicon.json")
    assert TermLexicon.load(tmp_path / "lexicon.json").find_base(source, target) == base


def test_of_forms_as_frequent_the_shorter_is_given():
    lexicon = TermLexicon((set(), set()), {"cat": {"Katzen": 2, "Katze": 2}})
    assert lexicon.find_base("cat", "Katzen") == "Katze"


def test_annotated_sources_by_hand():
    lexicon = TermLexicon(COMMON, TRANSLATIONS)
    pair = LinkedPair("The cats sleep.", "Die Katzen schlafen.", "0-0 1-1", find_aligned_words)
    made = AlignedTermAnnotator(lexicon, Terms(max_terms=3)).annotate(pair, Random(1))
    assert made == ("The<term0> cats<term1> Katze<term2> sleep.", "Die Katzen schlafen.")
    for faulty in (
        LinkedPair("The <term0> cats.", "Die Katzen.", "0-0 1-1", find_aligned_words),
        LinkedPair("The cats.", "Die Katzen.", "0-0", find_aligned_words),
    ):
        assert AlignedTermAnnotator(lexicon, Terms(max_terms=3)).annotate(faulty, Random(1)) is None


def test_terms_of_an_example_dont_overlap_and_are_no_more_than_wanted():
    lexicon = TermLexicon((set(), set()), {})
    text = "red green blue black white brown"
    links = " ".join(f"{index}-{index}" for index in range(6))
    numbers = set()
    for seed in range(200):
        pair = LinkedPair(text, text.upper(), links, find_aligned_words)
        made, target = AlignedTermAnnotator(lexicon, Terms(max_terms=2)).annotate(
            pair, Random(seed)
        )
        assert target == text.upper()
        parts = made.replace("<term2>", "<term0>").split("<term0>")
        terms = [part.split("<term1>") for part in parts if "<term1>" in part]
        assert all(source.upper().strip() == target.strip() for source, target in terms)
        # Without annotation the source is as before.
        assert "".join(part.split("<term1>")[0] for part in parts) == text
        numbers.add(len(terms))
    assert numbers == {1, 2}


def test_what_becomes_of_a_pair_doesnt_depend_on_others():
    lexicon = TermLexicon(COMMON, TRANSLATIONS)
    settings = Augment(terms=Terms(rate=0.3))
    sources = [f"cats {number} and houses" for number in range(200)]
    targets = [f"Katzen {number} und Häuser" for number in range(200)]
    lines = ["0-0 3-3"] * 200

    def augment(first, last, seed=1):
        augmenter = Augmenter(settings, seed, lexicon)
        links = Links(lines[first:last], find_aligned_words)
        return augmenter.augment(sources[first:last], targets[first:last], links).sources

    whole = augment(0, 200)
    # 200 pairs at 0.3: 60, with a standard deviation of 6.5.
    assert 35 < len(whole) < 85
    assert [each for first in range(0, 200, 7) for each in augment(first, first + 7)] == whole
    assert augment(0, 200, seed=2) != whole


def test_terms_without_a_dictionary_need_a_lexicon(tmp_path: Path):
    with pytest.raises(ValueError, match="need a lexicon"):
        Augmenter(Augment(terms=Terms()), 1)


def test_invented_stems_keep_endings_and_capitals():
    lexicon = TermLexicon(COMMON, TRANSLATIONS)
    pair = LinkedPair("The cats sleep.", "Die Katzen schlafen.", "0-0 1-1", find_aligned_words)
    annotator = AlignedTermAnnotator(lexicon, Terms(invented=1.0))
    stems = set()
    for seed in range(50):
        source, target = annotator.annotate(pair, Random(seed))
        found = re.fullmatch(r"The<term0> cats<term1> ([A-ZÄÖÜ]\w+)<term2> sleep\.", source)
        # Katze is a stem, Katzen the same and n.
        assert target == f"Die {found[1]}n schlafen."
        stems.add(found[1])
    assert len(stems) > 5
    # Which begin as one word does, and end as another.
    words = {form.lower() for forms in TRANSLATIONS.values() for form in forms if " " not in form}
    assert all(
        any(stem.lower().startswith(word[: (len(word) + 1) // 2]) for word in words)
        and any(stem.lower().endswith(word[len(word) // 2 :]) for word in words)
        for stem in stems
    )


def test_what_has_no_stem_in_common_is_not_invented():
    lexicon = TermLexicon((set(), set()), TRANSLATIONS)
    for base, form in (("Haus", "Maus"), ("an", "an"), ("ein Hund", "einen Hund")):
        assert lexicon.invent(base, form, Random(1)) == (base, form)
    assert TermLexicon((set(), set()), {}).invent("Katze", "Katzen", Random(1)) == (
        "Katze",
        "Katzen",
    )
