"""Utilities of minimum Bayes risk: sacreBLEU's sentence scores, and means of counts by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF

from mtkit.evaluation import utilities as utilities_module
from mtkit.evaluation.utilities import measure_utilities

SCORERS = {"chrf": CHRF(), "bleu": BLEU(effective_order=True)}
METRICS = st.sampled_from(sorted(SCORERS))
# Few characters, so that texts share n-grams: several of UTF-16's units, and spaces of all kinds.
LETTERS = st.one_of(
    st.sampled_from("ab.,! \t\u00a0\u3000é\u0301😀𝔸1"), st.characters(codec="utf-8")
)
TEXTS = st.lists(st.text(LETTERS, max_size=25), min_size=1, max_size=7, unique=True)


def measure_by_sacrebleu(texts, weights, metric):
    scorer = SCORERS[metric]
    return [
        sum(
            weight * scorer.sentence_score(text, [reference]).score
            for reference, weight in zip(texts, weights, strict=True)
        )
        / sum(weights)
        for text in texts
    ]


@given(TEXTS, st.data(), METRICS)
def test_utilities_are_means_of_sacrebleus_sentence_scores(texts, data, metric):
    weights = [data.draw(st.integers(1, 4)) for _ in texts]
    found = measure_utilities(texts, weights, metric)
    assert found == pytest.approx(measure_by_sacrebleu(texts, weights, metric), abs=1e-9)


SENTENCES = [
    "Ein Mann schläft auf einer Bank.",
    "Ein Mann schläft auf der Bank im Park.",
    "Der Mann, der auf der Bank schläft.",
    "",
    "Die Die Die Die Die Die Die",
    "Ein Mann schläft auf einer Bank 😀.",
]


@pytest.mark.parametrize("metric", sorted(SCORERS))
def test_a_table_in_parts_gives_the_same(metric, monkeypatch):
    monkeypatch.setattr(utilities_module, "_MAX_CELLS", 20)
    weights = [1, 2, 1, 1, 3, 1]
    found = measure_utilities(SENTENCES, weights, metric)
    assert found == pytest.approx(measure_by_sacrebleu(SENTENCES, weights, metric), abs=1e-9)


def test_the_mean_reference_of_chrf_by_hand():
    # Mean counts: a 3/2, aa 1/2. "aa" matches 3/2 of 2 and 1/2 of 1: precision (3/4 + 1/2) / 2 =
    # 5/8, recall 1. "a" has no n-gram of two: precision 1, recall 1 / (3/2).
    found = measure_utilities(["aa", "a"], [1, 1], "chrf", aggregate=True)
    precision = 5 / 8
    assert found[0] == pytest.approx(100 * 5 * precision / (4 * precision + 1))
    recall = 2 / 3
    assert found[1] == pytest.approx(100 * 5 * recall / (4 + recall))


def test_the_mean_reference_of_bleu_by_hand():
    # Mean counts: a 1, b 3/4, "a b" 3/4; mean length 7/4. "a b" is longer and matches 7/4 of 2 and
    # 3/4 of 1; "a" is shorter and matches all of its word.
    found = measure_utilities(["a b", "a"], [3, 1], "bleu", aggregate=True)
    assert found[0] == pytest.approx(100 * math.sqrt(7 / 8 * 3 / 4))
    assert found[1] == pytest.approx(100 * math.exp(1 - 7 / 4))


@given(TEXTS, METRICS)
def test_the_mean_of_one_text_is_that_text(texts, metric):
    text = texts[0]
    wanted = SCORERS[metric].sentence_score(text, [text]).score
    assert measure_utilities([text], [5], metric, aggregate=True) == pytest.approx([wanted])


@pytest.mark.parametrize("metric", sorted(SCORERS))
def test_the_best_by_their_mean_are_scored_against_each(metric):
    weights = [1, 2, 1, 1, 1, 1]
    rough = measure_utilities(SENTENCES, weights, metric, aggregate=True)
    found = measure_utilities(SENTENCES, weights, metric, aggregate=True, num_exact=3)
    wanted = measure_by_sacrebleu(SENTENCES, weights, metric)
    best = sorted(range(6), key=lambda index: -rough[index])[:3]
    assert [index for index in range(6) if found[index] > -math.inf] == sorted(best)
    assert found[best] == pytest.approx([wanted[index] for index in best], abs=1e-9)
