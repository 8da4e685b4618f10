"""Scores of labels: accuracy and macro-averaged F1, with intervals and tests of differences."""

from collections.abc import Mapping, Sequence

import numpy as np

from mtkit.evaluation.evaluate import EvaluatedTestSet, rate
from mtkit.evaluation.statistics import Statistics
from mtkit.recipe.evaluation import Evaluation
from mtkit.version import __version__


def compute_label_metrics(
    found: Sequence[str], references: Sequence[str], labels: Sequence[str]
) -> list[Statistics]:
    """Returns accuracy and macro-F1 in percent, with each text's contribution."""
    # Macro-F1 is the mean of the labels' F1, 2 TP / (2 TP + FP + FN), as in scikit-learn's
    # `f1_score(average="macro")`: a label in neither outputs nor references doesn't count. It
    # raises a ValueError without texts, or for unequal counts.
    if not references or len(found) != len(references):
        raise ValueError(f"{len(found)} labels for {len(references)} texts")
    numbers = {label: number for number, label in enumerate(labels)}
    given = np.array([numbers[label] for label in found])
    right = np.array([numbers[label] for label in references])
    is_right = (given == right).astype(np.int64)
    rows = np.arange(len(right))
    # For each label: how often correctly found, how often found, how often in the references.
    counts = np.zeros((len(right), 3, len(labels)), np.int64)
    counts[rows, 0, right] = is_right
    counts[rows, 1, given] += 1
    counts[rows, 2, right] += 1
    signature = f"labels:{len(labels)}|texts:{len(references)}|version:mtkit-{__version__}"
    of_accuracy = np.stack((is_right, np.ones_like(is_right)), axis=1)
    return [
        Statistics.of("accuracy", "accuracy", signature, of_accuracy),
        Statistics.of("macro-f1", "macro-F1", signature, counts.reshape(len(right), -1)),
    ]


def evaluate_labels(
    systems: Mapping[str, Sequence[str]],
    test_set: str,
    references: Sequence[str],
    labels: Sequence[str],
    evaluation: Evaluation,
) -> EvaluatedTestSet:
    """Returns accuracy and macro-F1 of classifiers, with bootstrap intervals and tests."""
    statistics = {
        name: compute_label_metrics(found, references, labels) for name, found in systems.items()
    }
    return rate(test_set, statistics, evaluation)
