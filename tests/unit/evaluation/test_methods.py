"""Welch's test by scipy, the normal distribution, and data with known variances are the oracles."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from mtkit.evaluation.methods import compare_methods, count_runs_needed
from mtkit.evaluation.statistics import Statistics
from mtkit.recipe.evaluation import Significance


def as_run(scores: Sequence[float]) -> list[Statistics]:
    """Returns the statistics of a run's sentences, whose mean is its score."""
    values = np.array(scores)
    return [Statistics.of("comet", "COMET", "", np.stack([values, np.ones_like(values)], 1))]


def draw_methods(
    seed: int, num_runs: int, *, difference: float = 0.0
) -> Mapping[str, Mapping[str, list[Statistics]]]:
    """Returns two methods whose scores have effects of 200 sentences, of runs, and of both."""
    generator = np.random.default_rng(seed)
    of_sentences = generator.normal(0.5, 0.2, 200)
    methods = {}
    for name, mean in (("a", difference), ("b", 0.0)):
        of_method = of_sentences + generator.normal(mean, 0.1, 200)
        methods[name] = {
            f"{name}{index}": as_run(
                of_method + generator.normal(0.0, 0.01) + generator.normal(0.0, 0.15, 200)
            )
            for index in range(num_runs)
        }
    return methods


def test_without_variance_of_sentences_it_is_welchs_test() -> None:
    a, b = [70.1, 70.9, 71.5], [69.0, 69.4, 70.2, 69.9]
    methods = {
        name: {f"{name}{value}": as_run([value / 100] * 50) for value in values}
        for name, values in (("a", a), ("b", b))
    }
    first, second = compare_methods("test", methods, Significance())
    # scipy.stats.ttest_ind(a, b, equal_var=False) with its confidence_interval(0.95): statistic
    # 2.4922, p = 0.07352, -0.19208 to 2.60875; scipy.stats.t.interval(0.95, 2, ...) of a.
    assert first.difference is not None
    assert first.difference.value == pytest.approx(1.2083333, abs=1e-5)
    assert first.difference.p_value == pytest.approx(0.07352, abs=0.003)
    assert first.difference.interval.low == pytest.approx(-0.19208, abs=0.03)
    assert first.difference.interval.high == pytest.approx(2.60875, abs=0.03)
    assert first.deviation == pytest.approx(0.70237692, abs=1e-5)
    assert first.interval.low == pytest.approx(69.08853, abs=0.06)
    assert first.interval.high == pytest.approx(72.57813, abs=0.06)
    # (s_a^2 + s_b^2) / ((0.5 / (1.95996 + 0.84162))^2) = 24.36
    assert first.difference.num_runs_needed == 25
    assert first.difference.sentence_variance == pytest.approx(0.0, abs=1e-8)
    assert second.difference is None


def test_variances_of_seeds_and_of_sentences_are_those_of_the_data() -> None:
    found = [
        compare_methods("test", draw_methods(seed, 4), Significance(resamples=300))[0].difference
        for seed in range(60)
    ]
    # 2 (0.01^2 + 0.15^2 / 200) / 4 and 2 * 0.1^2 / 200, in points squared.
    seeds = np.mean([each.seed_variance for each in found if each is not None])
    sentences = np.mean([each.sentence_variance for each in found if each is not None])
    assert seeds == pytest.approx(1.0625, rel=0.15)
    assert sentences == pytest.approx(1.0, rel=0.15)


@pytest.mark.parametrize("num_runs", [2, pytest.param(5, marks=pytest.mark.patient)])
def test_intervals_hold_the_true_difference_as_often_as_stated(num_runs: int) -> None:
    num_held = 0
    for seed in range(100):
        methods = draw_methods(seed, num_runs, difference=0.03)
        difference = compare_methods("test", methods, Significance(resamples=300))[0].difference
        assert difference is not None
        num_held += difference.interval.low <= 3.0 <= difference.interval.high
    # Of a binomial distribution with 0.95, 99.9 % is between 88 and 100.
    assert num_held >= 88


def test_no_number_of_runs_helps_a_test_set_that_is_too_small() -> None:
    settings = Significance(difference=0.5)
    # (0.5 / 2.80159)^2 = 0.03185
    assert count_runs_needed(0.01, 0.04, settings) is None
    assert count_runs_needed(0.01, 0.0, settings) == 2
    assert count_runs_needed(0.2, 0.03, settings) == 109


def test_a_single_method_has_an_interval_and_no_difference() -> None:
    (score,) = compare_methods("test", {"a": draw_methods(1, 3)["a"]}, Significance())
    assert score.difference is None
    assert score.interval.low < score.value < score.interval.high
    assert len(score.runs) == 3
