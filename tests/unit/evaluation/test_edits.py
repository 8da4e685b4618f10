"""sacreBLEU's own search for shifts is the oracle."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import TER
from sacrebleu.metrics.lib_ter import translation_edit_rate

from mtkit.evaluation.edits import FastTER, count_edits

from .real_text import read_reference, read_system

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f", "g", "h"]), max_size=30)


def make_pair(seed: int, num_words: int, num_kinds: int) -> tuple[list[str], list[str]]:
    """Returns a hypothesis, with blocks of words moved and words lost, and its reference."""
    chance = random.Random(seed)
    reference = [f"w{chance.randrange(num_kinds)}" for _ in range(num_words)]
    hypothesis = list(reference)
    for _ in range(3):
        start = chance.randrange(num_words)
        block = hypothesis[start : start + chance.randint(1, 30)]
        del hypothesis[start : start + len(block)]
        place = chance.randint(0, len(hypothesis))
        hypothesis[place:place] = block
    for _ in range(chance.randint(0, num_words // 4)):
        place = chance.randrange(len(hypothesis))
        hypothesis[place : place + 1] = chance.choice([["x"], ["x", "y"], []])
    return hypothesis, reference


@pytest.mark.parametrize(
    ("hypothesis", "reference", "edits"),
    [
        ("a b c", "a b c", 0),
        ("b c a", "a b c", 1),
        ("a x c", "a b c", 1),
        ("", "a b c", 3),
        ("a b c", "", 3),
        ("", "", 0),
        # Snover et al. 2006, section 2: "this week" moves, "the" and "American" are missing, and
        # "Saudi Arabia" changes in one word and has one besides.
        (
            "this week the saudis denied information published in the new york times",
            "saudi arabia denied this week information published in the american new york times",
            4,
        ),
    ],
)
def test_counts_as_by_hand(hypothesis: str, reference: str, edits: int) -> None:
    assert count_edits(hypothesis.split(), reference.split()) == edits


@given(WORDS, WORDS)
def test_counts_as_sacrebleu_does(hypothesis: list[str], reference: list[str]) -> None:
    assert count_edits(hypothesis, reference) == translation_edit_rate(hypothesis, reference)[0]


# 25 words reach the edge of sacreBLEU's band around the diagonal; few kinds of words reach the
# greatest number of shifts that are tried.
@pytest.mark.parametrize("num_words", [24, 25, 26])
@pytest.mark.parametrize("num_kinds", [3, 30, 1000])
def test_counts_as_sacrebleu_does_of_blocks_moved(num_words: int, num_kinds: int) -> None:
    for seed in range(2):
        hypothesis, reference = make_pair(seed, num_words, num_kinds)
        for shortened in (hypothesis, hypothesis[: num_words // 3]):
            expected, _ = translation_edit_rate(shortened, reference)
            assert count_edits(shortened, reference) == expected


# Seed, words and kinds of words: sacreBLEU 2.6.0's counts, of the pair and of its shortened
# hypothesis. It takes seconds for a pair.
LONG = {
    (0, 60, 3): (17, 44),
    (1, 60, 3): (15, 42),
    (0, 110, 3): (34, 80),
    (0, 60, 30): (45, 40),
    (1, 60, 30): (16, 43),
    (0, 110, 30): (47, 84),
    (0, 60, 1000): (4, 40),
    (1, 60, 1000): (17, 45),
    (0, 110, 1000): (18, 85),
}


@pytest.mark.parametrize(("case", "expected"), LONG.items(), ids=str)
def test_counts_as_sacrebleu_did_of_long_pairs(
    case: tuple[int, int, int], expected: tuple[int, int]
) -> None:
    _, num_words, _ = case
    hypothesis, reference = make_pair(*case)
    assert count_edits(hypothesis, reference) == expected[0]
    assert count_edits(hypothesis[: num_words // 3], reference) == expected[1]


@pytest.mark.patient
@pytest.mark.parametrize(("case", "expected"), LONG.items(), ids=str)
def test_sacrebleu_counts_the_same_of_long_pairs(
    case: tuple[int, int, int], expected: tuple[int, int]
) -> None:
    _, num_words, _ = case
    hypothesis, reference = make_pair(*case)
    assert translation_edit_rate(hypothesis, reference)[0] == expected[0]
    assert translation_edit_rate(hypothesis[: num_words // 3], reference)[0] == expected[1]


@pytest.mark.parametrize("system", ["uedin-nmt", "PROMT-Rule-based"])
def test_counts_as_sacrebleu_does_of_systems_of_wmt17(system: str) -> None:
    hypotheses, reference = read_system(system)[:100], read_reference()[:100]
    other = read_system("LIUM-NMT")[:100]
    for references in ([reference], [other, reference]):
        scorers = (kind(references=references) for kind in (FastTER, TER))
        ours, theirs = (each._extract_corpus_statistics(hypotheses, None) for each in scorers)
        assert ours == theirs
