"""Perplexity: how well a language model predicts text, per token, word and character.

For a masked model: perplexity and accuracy of masked tokens.

Perplexity per token depends on the vocabulary; per word and per character it doesn't, so models
with different vocabularies are comparable. A line's end, which is predicted too, counts as a token,
as a word and as a character, as in KenLM.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtkit.evaluation.evaluate import EvaluatedTestSet, rate
from mtkit.evaluation.statistics import MetricName, Statistics
from mtkit.recipe.evaluation import Evaluation
from mtkit.text.words import uses_spaces
from mtkit.version import __version__


@dataclass(frozen=True, eq=False)
class PredictedText:
    """The lines of a text, with a language model's probability of each.

    Attributes:
        lines: Non-blank lines.
        log_probabilities: Natural log-probability of each line, including its end, [lines].
        num_tokens: Tokens of each line, including its end, [lines].
        num_unknown: Total tokens for text that the vocabulary lacks.
        context_tokens: Tokens that the model sees at once.
    """

    lines: Sequence[str]
    log_probabilities: NDArray[np.float64]
    num_tokens: NDArray[np.int64]
    num_unknown: int
    context_tokens: int


@dataclass(frozen=True, eq=False)
class MaskedPredictions:
    """A text with masked tokens, and a masked language model's predictions of them.

    Attributes:
        log_probabilities: Natural log-probability of each block's masked tokens, [blocks].
        num_right: Masked tokens that are more probable than any other piece, [blocks].
        num_masked: Masked tokens, [blocks].
        share: The share of masked tokens.
        context_tokens: Tokens that the model sees at once.
    """

    log_probabilities: NDArray[np.float64]
    num_right: NDArray[np.int64]
    num_masked: NDArray[np.int64]
    share: float
    context_tokens: int


def measure_masked_text(text: MaskedPredictions) -> list[Statistics]:
    """Returns the accuracy of masked tokens in percent, and their perplexity."""
    if not len(text.num_masked):
        raise ValueError("no text")
    signature = (
        f"masked:{text.num_masked.sum()}|share:{text.share:g}|blocks:{len(text.num_masked)}|"
        f"context:{text.context_tokens}|version:mtkit-{__version__}"
    )
    of_accuracy = np.stack((text.num_right, text.num_masked), axis=1)
    name = "perplexity per masked token"
    return [
        Statistics.of("accuracy", "masked accuracy", signature, of_accuracy),
        _measure(name, text.num_masked, text.log_probabilities, signature),
    ]


def measure_text(text: PredictedText) -> list[Statistics]:
    """Returns the perplexity per token, word and character, and bits per character.

    There is none per word of text in a script without spaces.
    """
    if not len(text.lines):
        raise ValueError("no lines")
    words = np.array([len(line.split()) + 1 for line in text.lines])
    characters = np.array([len(line) + 1 for line in text.lines])
    units = {"token": text.num_tokens, "word": words, "character": characters}
    signature = "|".join(
        [
            *(f"{unit}s:{counts.sum()}" for unit, counts in units.items()),
            f"unknown:{text.num_unknown}",
            f"context:{text.context_tokens}",
            "ends:counted",
            f"version:mtkit-{__version__}",
        ]
    )
    if 2 * sum(map(uses_spaces, text.lines)) < len(text.lines):
        # A line would be a word.
        del units["word"]
    names = {f"perplexity per {unit}": counts for unit, counts in units.items()}
    return [
        _measure(name, counts, text.log_probabilities, signature)
        for name, counts in {**names, "bits per character": characters}.items()
    ]


def _measure(
    name: str,
    counts: NDArray[np.int64],
    log_probabilities: NDArray[np.float64],
    signature: str,
) -> Statistics:
    per_line = np.stack((-log_probabilities, counts), axis=1)
    metric: MetricName = "bits" if name.startswith("bits") else "perplexity"
    return Statistics.of(metric, name, signature, per_line, higher_is_better=False)


def evaluate_text(
    name: str, test_set: str, text: PredictedText | MaskedPredictions, evaluation: Evaluation
) -> EvaluatedTestSet:
    """Returns a model's scores on a test set, with intervals by bootstrap over lines or blocks."""
    if isinstance(text, MaskedPredictions):
        return rate(test_set, {name: measure_masked_text(text)}, evaluation)
    return rate(test_set, {name: measure_text(text)}, evaluation, remarks={name: _remark(text)})


def _remark(text: PredictedText) -> tuple[str, ...]:
    """Returns remarks on the perplexity of a text."""
    if not text.num_unknown:
        return ()
    share = 100.0 * text.num_unknown / text.num_tokens.sum()
    return (
        f"{text.num_unknown:,} tokens ({share:.2f} %) are unknown to the vocabulary: their "
        "characters aren't predicted, so perplexity is lower than it should be",
    )
