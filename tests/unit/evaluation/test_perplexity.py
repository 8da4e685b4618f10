"""Perplexities worked out by hand."""

import math

import numpy as np
import pytest

from mtkit.evaluation.perplexity import (
    MaskedPredictions,
    PredictedText,
    evaluate_text,
    measure_masked_text,
    measure_text,
)
from mtkit.recipe.evaluation import Evaluation, Significance

# A model that gives every character of "ab c" and "d", and each line's end, a chance of 1 in 4:
# 5 + 2 characters, in 3 + 2 tokens, of 3 + 2 words with the ends.
TEXT = PredictedText(
    lines=["ab c", "d"],
    log_probabilities=np.array([-5 * math.log(4.0), -2 * math.log(4.0)]),
    num_tokens=np.array([3, 2]),
    num_unknown=0,
    context_tokens=8,
)


def test_each_perplexity_is_that_of_its_unit() -> None:
    values = {each.name: each.value for each in measure_text(TEXT)}
    assert values == {
        "perplexity per token": pytest.approx(4.0 ** (7 / 5)),
        "perplexity per word": pytest.approx(4.0 ** (7 / 5)),
        "perplexity per character": pytest.approx(4.0),
        "bits per character": pytest.approx(2.0),
    }


def test_what_a_value_depends_on_is_in_its_signature() -> None:
    (signature,) = {each.signature for each in measure_text(TEXT)}
    assert signature.startswith("tokens:5|words:5|characters:7|unknown:0|context:8|ends:counted|")


def test_a_uniform_model_has_one_value_whatever_is_drawn() -> None:
    settings = Evaluation(significance=Significance(resamples=100))
    evaluated = evaluate_text("model", "set", TEXT, settings)
    assert evaluated.num_sentences == 2
    scores = {score.name: score for score in evaluated.systems[0].scores}
    interval = scores["bits per character"].interval
    assert interval is not None
    # sacreBLEU's draws are scored in single precision.
    assert (interval.low, interval.high) == (pytest.approx(2.0, abs=1e-6),) * 2
    assert not any(score.higher_is_better for score in scores.values())
    assert evaluated.systems[0].remarks == ()


def test_an_interval_is_over_lines() -> None:
    # Draws of two lines: twice the first, one of each, or twice the second.
    text = PredictedText(["a", "b"], np.log([0.5**2, 0.25**2]), np.array([2, 2]), 0, 8)
    settings = Evaluation(significance=Significance(resamples=400))
    score = evaluate_text("model", "set", text, settings).systems[0].scores[0]
    assert score.interval is not None
    assert score.value == pytest.approx(math.sqrt(8.0))
    assert (score.interval.low, score.interval.high) == (
        pytest.approx(2.0, abs=1e-6),
        pytest.approx(4.0, abs=1e-6),
    )


def test_one_line_has_no_interval_and_unknown_tokens_are_told() -> None:
    text = PredictedText(["a\u4e2d"], np.array([-3.0]), np.array([4]), 1, 8)
    result = evaluate_text("model", "set", text, Evaluation()).systems[0]
    assert {score.interval for score in result.scores} == {None}
    assert "1 tokens (25.00 %) are unknown" in result.remarks[0]


def test_no_text_is_our_own_fault() -> None:
    with pytest.raises(ValueError, match="no lines"):
        measure_text(PredictedText([], np.zeros(0), np.zeros(0, np.int64), 0, 8))


def test_hidden_tokens_are_counted_over_all_blocks() -> None:
    # Four of five right; the five have a chance of 1 in 2, 2, 8, 8 and 8: 2^11 in all.
    text = MaskedPredictions(
        log_probabilities=np.array([-2 * math.log(2.0), -9 * math.log(2.0)]),
        num_right=np.array([2, 2]),
        num_masked=np.array([2, 3]),
        share=0.15,
        context_tokens=64,
    )
    accuracy, perplexity = measure_masked_text(text)
    assert (accuracy.name, accuracy.value) == ("masked accuracy", 80.0)
    assert perplexity.name == "perplexity per masked token"
    assert perplexity.value == pytest.approx(2.0 ** (11 / 5))
    assert accuracy.signature.startswith("masked:5|share:0.15|blocks:2|context:64|")
    evaluated = evaluate_text("model", "set", text, Evaluation())
    first, second = evaluated.systems[0].scores
    assert first.higher_is_better
    assert not second.higher_is_better
    # Of blocks of 100 % and 67 %, some are drawn alone.
    assert first.interval is not None
    assert first.interval.low == pytest.approx(100 * 2 / 3)
    assert first.interval.high == 100.0


def test_no_block_has_no_score() -> None:
    nothing = np.zeros(0, np.int64)
    with pytest.raises(ValueError, match="no text"):
        measure_masked_text(MaskedPredictions(np.zeros(0), nothing, nothing, 0.15, 64))
