"""The estimate of quality and the bound; numbers come from tables, SciPy and scikit-learn."""

import math
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from pydantic import ValidationError

from mtkit.errors import MtkitError
from mtkit.evaluation.quality import (
    Estimator,
    Threshold,
    choose_threshold,
    compute_binomial_cdf,
    compute_roc_auc,
    count_allowed,
    count_needed,
    estimate_needed,
    make_thresholds,
    split_labels,
)

WILKS = (59, 93, 124, 153, 181, 208, 234, 260, 286, 311)
"""Sample sizes for 95 % of a population with 95 % confidence and 0, 1, 2 ... failures (S. S. Wilks
1941; the tables of nuclear safety analyses, such as NUREG/CR-1475)."""


def make_threshold(at: float, fit: tuple[int, int], tested: tuple[int, int]) -> Threshold:
    return Threshold(
        at=at, fit_released=fit[0], fit_wrong=fit[1], released=tested[0], wrong=tested[1]
    )


def test_numbers_of_samples_are_those_of_the_tables() -> None:
    for num_wrong, size in enumerate(WILKS):
        assert count_allowed(size, 0.05, 0.95) == num_wrong
        assert count_allowed(size - 1, 0.05, 0.95) == num_wrong - 1
    # "59 for 95/95, 299 for 99 % with 95 %, 22 for 90/90".
    found = [count_needed(*each) for each in ((0.05, 0.95), (0.01, 0.95), (0.1, 0.9))]
    assert found == [59, 299, 22]
    assert count_needed(0.05, 0.95, 0.05) is None
    # 3 of 150 are 2 %, but 3 take 153; so 4, of 181. However few are wrong, one is.
    assert count_needed(0.05, 0.95, 0.02) == 181
    assert count_needed(0.05, 0.95, 1e-9) == 93
    # By trying each number with scipy 1.17.1's binom.cdf.
    assert count_needed(0.01, 0.95, 0.008) == 6_990
    assert count_needed(0.05, 0.95, 0.049) is None


@pytest.mark.parametrize(
    ("wrong", "released", "risk", "expected"),
    [
        # scipy 1.17.1: binom.cdf
        (3, 50, 0.1, 0.250293905953308),
        (0, 59, 0.05, 0.04849452524942322),
        (41, 1_000, 0.05, 0.10629617073627556),
        (900, 20_000, 0.05, 0.0005260337804944139),
        (950, 1_000, 0.95, 0.5202589429126815),
        (7, 10, 0.3, 0.9984096136),
        (0, 0, 0.05, 1.0),
        (5, 5, 0.05, 1.0),
    ],
)
def test_the_tail_of_a_binomial(wrong: int, released: int, risk: float, expected: float) -> None:
    assert compute_binomial_cdf(wrong, released, risk) == pytest.approx(expected, rel=1e-9)


def test_millions_of_labels() -> None:
    # scipy 1.17.1: binom.cdf, and the last number with at most 5 %.
    found = (
        compute_binomial_cdf(499_000, 10_000_000, 0.05),
        compute_binomial_cdf(5_001_000, 10_000_000, 0.5),
    )
    assert found == pytest.approx((0.07346410840608869, 0.7365586485143509), rel=1e-7)
    assert count_allowed(10_000_000, 0.05, 0.95) == 498_866
    thresholds = [
        make_threshold(0.9 - place / 100, (9_000_000, 440_000), (10_000_000, 498_866 + place))
        for place in range(50)
    ]
    assert choose_threshold(thresholds, 0.05, 0.95) is thresholds[0]
    assert estimate_needed(thresholds, 0.01, 0.95, 19_000_000) is None


def test_the_tail_agrees_with_clopper_and_pearson() -> None:
    # Upper limits of 95 % confidence, one-sided: scipy's beta.ppf(0.95, k + 1, n - k).
    for wrong, released, limit in ((0, 50, 0.05815507911697225), (5, 100, 0.1022533776432745)):
        assert compute_binomial_cdf(wrong, released, limit) == pytest.approx(0.05)


def test_a_threshold_is_tested_after_the_stricter_ones() -> None:
    # 100 of 0 wrong pass, 200 of 4 too (181 are enough for 4), 300 of 12 don't (311 allow 9); what
    # is looser isn't looked at, though 1,000 of 20 would pass.
    thresholds = [
        make_threshold(0.9, (100, 0), (100, 0)),
        make_threshold(0.8, (120, 1), (200, 4)),
        make_threshold(0.7, (140, 20), (300, 12)),
        make_threshold(0.6, (160, 40), (1_000, 20)),
    ]
    assert choose_threshold(thresholds, 0.05, 0.95) is thresholds[1]
    assert choose_threshold(thresholds[2:], 0.05, 0.95) is None
    assert choose_threshold([], 0.05, 0.95) is None


def test_the_first_tested_is_chosen_by_the_other_labels() -> None:
    # Ten fitted ones promise 15 tested ones, which can't pass; a hundred promise 150.
    few = make_threshold(0.95, (10, 0), (10, 0))
    many = make_threshold(0.9, (100, 0), (150, 1))
    assert choose_threshold([few, many], 0.05, 0.95) is many
    # Nothing released passes nothing.
    assert choose_threshold([make_threshold(0.9, (100, 0), (0, 0))], 0.05, 0.95) is None


def test_how_many_labels_are_needed() -> None:
    # 20 labels without a wrong one, all released: (0 + 1/2) / (20 + 1) may be wrong, 2.4 %. 208
    # released ones may have 5 wrong, 2.4 % (Wilks); 60 % of the labels test.
    thresholds = [make_threshold(0.5, (8, 0), (12, 0))]
    needed = estimate_needed(thresholds, 0.05, 0.95, 20)
    assert needed is not None
    assert 181 / 0.6 < needed < 240 / 0.6
    assert estimate_needed([make_threshold(0.5, (8, 3), (12, 4))], 0.05, 0.95, 20) is None


def test_the_estimate_is_scikit_learns() -> None:
    # scikit-learn 1.9.1: LogisticRegression(C=1, solver="newton-cg", tol=1e-12) of the standardised
    # features, with a right and a wrong row at zero of weight 1/2.
    columns = {
        "a": [0.2, 1.5, -0.3, 2.2, 0.9, -1.1, 0.4, 1.9],
        "b": [1.0, 0.0, 2.0, 1.0, 3.0, 0.0, 2.0, 4.0],
    }
    right = np.array([True, True, False, True, False, False, True, True])
    found = Estimator.fit(columns, right)
    assert found.weights == pytest.approx((0.9848844107967146, -0.2729798174982719), abs=1e-6)
    assert found.intercept == pytest.approx(0.5410691874567287, abs=1e-6)
    expected = [0.548193, 0.833582, 0.382367, 0.886532, 0.606031, 0.307907, 0.542977, 0.760349]
    assert found.estimate(columns).tolist() == pytest.approx(expected, abs=2e-6)


def test_an_estimate_does_not_depend_on_its_neighbours() -> None:
    columns = {"a": [0.2, 1.5, -0.3, 2.2], "b": [1.0, 0.0, 2.0, 1.0]}
    found = Estimator.fit(columns, np.array([True, False, False, True]))
    whole = found.estimate(columns).tolist()
    alone = [
        found.estimate({name: [of[index]] for name, of in columns.items()})[0]
        for index in reversed(range(4))
    ]
    assert alone[::-1] == whole


def test_odd_features_and_labels() -> None:
    # All right, a feature that never changes, one without bounds, and a segment without features.
    columns = {"same": [1.0] * 4, "huge": [1e8, -1e8, 3.0, math.nan]}
    found = Estimator.fit(columns, np.array([True] * 4))
    estimates = found.estimate(columns)
    assert estimates[3] == 0.0
    # Three right ones and half a one of each kind: 3.5 of 4 are right.
    assert estimates[:3].mean() == pytest.approx(3.5 / 4, abs=0.03)
    # One feature tells right from wrong.
    split = Estimator.fit({"x": [0.0, 0.0, 1.0, 1.0]}, np.array([False, False, True, True]))
    assert all(map(math.isfinite, (*split.weights, split.intercept)))


@pytest.mark.parametrize("missing", [math.nan, math.inf, -math.inf, 1e300])
def test_a_feature_that_is_no_number(missing: float) -> None:
    right = np.array([True, True, False, False])
    columns = {"a": [2.0, 1.0, 0.0, missing], "b": [1.0, 1.0, 1.0, 1.0]}
    found = Estimator.fit(columns, right)
    # As if the segment weren't there, and never released.
    some = {name: numbers[:3] for name, numbers in columns.items()}
    assert found == Estimator.fit(some, right[:3])
    assert found.estimate(columns).tolist() == [*found.estimate(some).tolist(), 0.0]
    with pytest.raises(MtkitError, match="'b' is rarest"):
        Estimator.fit({"a": [1.0, 2.0, missing], "b": [missing] * 3}, right[:3])


def test_labels_are_split_by_content_and_not_by_order() -> None:
    keys = [(f"source {index % 7}", "text", index % 2 == 0) for index in range(50)]
    fit, tested = split_labels(keys)
    assert (len(fit), len(tested)) == (20, 30)
    assert sorted(fit + tested) == list(range(50))
    backwards, _ = split_labels(keys[::-1])
    assert sorted(keys[index] for index in fit) == sorted(keys[::-1][index] for index in backwards)
    # Equal labels go to either side, as others do.
    fit, tested = split_labels([("a", "b", True)] * 1_000)
    assert len(set(fit) & set(range(500))) == pytest.approx(200, abs=60)


def test_the_area_under_the_curve() -> None:
    # Of the 6 pairs of a right and a wrong one, 3 are in order and one is equal.
    estimates = np.array([0.9, 0.4, 0.6, 0.4, 0.7])
    right = np.array([True, True, True, False, False])
    assert compute_roc_auc(estimates, right) == pytest.approx(3.5 / 6)
    assert compute_roc_auc(estimates, np.array([True] * 5)) is None


def test_thresholds_count_what_they_release() -> None:
    fitted = np.array([0.9, 0.5, 0.0]), np.array([True, False, False])
    tested = np.array([0.95, 0.9, 0.6, 0.1]), np.array([True, False, False, True])
    assert make_thresholds(fitted, tested) == (
        make_threshold(0.9, (1, 0), (2, 1)),
        make_threshold(0.5, (2, 1), (3, 2)),
    )


def test_the_bound_holds_in_simulated_draws() -> None:
    generator = np.random.default_rng(7)
    features = generator.normal(size=(20_000, 2))
    likely = 1.0 / (1.0 + np.exp(-(2.5 + 2.0 * features[:, 0] + np.sin(3.0 * features[:, 1]))))
    right = generator.random(20_000) < likely
    num_draws, over, released = 150, 0, 0
    for _ in range(num_draws):
        picked = generator.integers(0, 20_000, 600)
        fit, tested = picked[:240], picked[240:]
        columns = {"a": features[fit, 0], "b": features[fit, 1]}
        estimator = Estimator.fit(columns, right[fit])
        estimates = estimator.estimate({"a": features[:, 0], "b": features[:, 1]})
        thresholds = make_thresholds(
            (estimates[fit], right[fit]), (estimates[tested], right[tested])
        )
        chosen = choose_threshold(thresholds, 0.1, 0.95)
        if chosen is not None:
            released += 1
            over += (~right[estimates >= chosen.at]).mean() > 0.1
    assert released > num_draws / 2
    # 5 %, and three standard deviations of so many draws.
    assert over <= num_draws * 0.05 + 3 * math.sqrt(num_draws * 0.05 * 0.95)


def test_the_tail_is_exact() -> None:
    def add(wrong: int, released: int, risk: Fraction) -> Fraction:
        return sum(
            (comb(released, k) * risk**k * (1 - risk) ** (released - k) for k in range(wrong + 1)),
            Fraction(0),
        )

    for wrong, released in ((2, 30), (11, 90), (0, 300)):
        exact = float(add(wrong, released, Fraction(1, 20)))
        assert compute_binomial_cdf(wrong, released, 0.05) == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("changed", [{"scales": (0.0,)}, {"weights": (math.nan,)}, {"names": ()}])
def test_an_impossible_estimator(changed: dict[str, object]) -> None:
    plain = {"names": ("a",), "means": (0.0,), "scales": (1.0,), "weights": (1.0,)}
    with pytest.raises(ValidationError):
        Estimator(**{**plain, "intercept": 0.0, **changed})
