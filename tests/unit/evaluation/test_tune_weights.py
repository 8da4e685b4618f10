"""Weights by an exact line search; a grid of weights is the oracle."""

import numpy as np
import pytest
from numpy.typing import NDArray

from mtkit.evaluation.tune_weights import tune_weights

Numbers = NDArray[np.float64]


def score_share(sums: Numbers) -> Numbers:
    """Returns 100 times a ratio of sums, which no sum of sentences' scores is."""
    return np.asarray(100.0 * sums[:, 0] / sums[:, 1])


def choose(features: list[Numbers], statistics: list[Numbers], weights: list[float]) -> float:
    sums = sum(
        rows[np.argmax(each @ weights)] for each, rows in zip(features, statistics, strict=True)
    )
    return float(score_share(np.asarray(sums)[None])[0])


@pytest.mark.parametrize("seed", range(5))
def test_no_weights_of_a_grid_are_better(seed: int) -> None:
    generator = np.random.default_rng(seed)
    features = [generator.normal(size=(generator.integers(1, 6), 2)) for _ in range(20)]
    statistics = [generator.integers(1, 9, (len(each), 2)).astype(float) for each in features]
    weights, value = tune_weights(features, statistics, score_share, [1.0, 0.0])
    assert value == pytest.approx(choose(features, statistics, weights))
    # With two weights only their direction counts.
    angles = np.linspace(0.0, 2 * np.pi, 2_000)
    best = max(choose(features, statistics, [np.cos(a), np.sin(a)]) for a in angles)
    # Each weight is at its best value for the other; that can be a local optimum.
    assert value >= best - 1.0
    assert value >= choose(features, statistics, [1.0, 0.0])
    assert max(map(abs, weights)) == pytest.approx(1.0)


def test_a_feature_that_knows_the_answer_gets_the_weight() -> None:
    generator = np.random.default_rng(2)
    right = generator.integers(0, 4, 50)
    features = [
        np.stack([generator.normal(size=4), np.arange(4) == index], axis=1) for index in right
    ]
    statistics = [
        np.stack([(np.arange(4) == index).astype(float), np.ones(4)], axis=1) for index in right
    ]
    weights, value = tune_weights(features, statistics, score_share, [1.0, 0.0])
    assert value == 100.0
    assert weights[1] == 1.0


def test_candidates_that_are_alike_leave_the_weights() -> None:
    same = [np.ones((3, 2))] * 4
    weights, value = tune_weights(same, [np.ones((3, 2))] * 4, score_share, [0.5, 1.0])
    assert (weights, value) == ([0.5, 1.0], 100.0)
