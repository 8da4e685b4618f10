"""Estimates whether translations are right, and bounds the share of wrong ones among the released.

Labels are of right and wrong segments. One part of them fits the estimate, a logistic regression of
features, and orders thresholds; the other part tests the thresholds, by Learn then Test.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from mtkit.errors import MtkitError
from mtkit.files import digest
from mtkit.recipe.section import Section

Matrix = NDArray[np.float64]
Right = NDArray[np.bool_]

FIT_SHARE = 0.4
"""Share of the labels that fit the estimate; the others test thresholds."""
MAX_THRESHOLDS = 50
_RIDGE = 1.0
"""Strength of the L2 penalty on the weights of standardised features."""
_MAX_STEPS = 100
_DIGITS = 6
"""Digits of an estimate: two engines' differ in later ones."""
_MAX_NEEDED = 20_000
_MAX_FEATURES = 100
_MAX_ABSOLUTE = 1e9
_Number = Annotated[float, Field(ge=-_MAX_ABSOLUTE, le=_MAX_ABSOLUTE)]
_Numbers = Annotated[tuple[_Number, ...], Field(max_length=_MAX_FEATURES)]


def compute_binomial_cdf(wrong: int, released: int, risk: float) -> float:
    """Returns P(Bin(released, risk) <= wrong): the p-value of "more than `risk` are wrong"."""
    if wrong >= released:
        return 1.0
    if wrong > released * risk:
        return 1.0 - compute_binomial_cdf(released - wrong - 1, released, 1.0 - risk)
    log_last = (
        math.lgamma(released + 1)
        - math.lgamma(wrong + 1)
        - math.lgamma(released - wrong + 1)
        + wrong * math.log(risk)
        + (released - wrong) * math.log1p(-risk)
    )
    # Below the mean, terms this far from the last are less than 1e-16 of it (Bernstein's bound).
    num_terms = 30 + math.ceil(9.0 * math.sqrt(released * risk * (1.0 - risk)))
    counts = np.arange(wrong, max(0, wrong - num_terms), -1.0)
    ratios = counts / (released - counts + 1.0) * ((1.0 - risk) / risk)
    return min(1.0, math.exp(log_last) * (1.0 + float(ratios.cumprod().sum())))


def count_allowed(released: int, risk: float, confidence: float) -> int:
    """Returns how many of `released` segments may be wrong; -1 if there are too few."""
    low, high = -1, math.floor(released * risk)
    while low < high:
        middle = (low + high + 1) // 2
        is_allowed = compute_binomial_cdf(middle, released, risk) <= 1.0 - confidence
        low, high = (middle, high) if is_allowed else (low, middle - 1)
    return low


def count_needed(risk: float, confidence: float, share_wrong: float = 0.0) -> int | None:
    """Returns how many released segments a test needs if `share_wrong` of them are wrong.

    It is the smallest n that passes with ceil(share_wrong * n) wrong ones; for a share of 0 that
    with (1 - risk)^n <= 1 - confidence. None for a share near the risk or above it.
    """
    if share_wrong >= risk:
        return None

    def passes(wrong: int, released: int) -> bool:
        return compute_binomial_cdf(wrong, released, risk) <= 1.0 - confidence

    def count_most(wrong: int) -> int:
        return math.floor(min(wrong / share_wrong, _MAX_NEEDED)) if share_wrong else _MAX_NEEDED

    tried = range(math.ceil(_MAX_NEEDED * share_wrong) + 1)
    wrong = bisect_left(tried, True, key=lambda each: passes(each, count_most(each)))
    if wrong == len(tried):
        return None
    return bisect_left(range(count_most(wrong)), True, key=lambda each: passes(wrong, each))


def split_labels(keys: Sequence[Sequence[object]]) -> tuple[list[int], list[int]]:
    """Returns the indices of labels that fit, and of those that test.

    A hash of a label's content decides, so that the order of labels doesn't matter. The n-th label
    with the same content has a hash of its own: each split is as probable as any other, and the
    tested labels are drawn as all of them are.
    """
    seen: Counter[tuple[object, ...]] = Counter()
    hashes = []
    for index, key in enumerate(map(tuple, keys)):
        seen[key] += 1
        hashes.append((digest([*key, seen[key]]), index))
    order = [index for _, index in sorted(hashes)]
    num_fit = round(FIT_SHARE * len(order))
    return order[:num_fit], order[num_fit:]


class Estimator(Section):
    """A logistic regression, with a mean, scale and weight per feature."""

    names: Annotated[tuple[str, ...], Field(max_length=_MAX_FEATURES)]
    means: _Numbers
    scales: Annotated[
        tuple[Annotated[float, Field(ge=1e-9, le=_MAX_ABSOLUTE)], ...],
        Field(max_length=_MAX_FEATURES),
    ]
    """Standard deviation of each feature; 1 for a constant one."""
    weights: _Numbers
    intercept: _Number

    @model_validator(mode="after")
    def _check(self) -> Self:
        if {len(each) for each in (self.means, self.scales, self.weights)} != {len(self.names)}:
            raise ValueError("names, means, scales and weights differ in length")
        return self

    @classmethod
    def fit(cls, columns: Mapping[str, Sequence[float]], right: Right) -> "Estimator":
        """Returns the estimator of maximum penalised likelihood, by Newton's method.

        Segments with a missing feature are left out. Half a right and half a wrong segment are
        added at the means, so that there is an estimator for any labels.

        Raises:
            MtkitError: No segment is left.
        """
        names, features = tuple(columns), stack(columns, tuple(columns))
        known = _find_known(features)
        if not known.all(axis=1).any():
            name = names[known.sum(axis=0).argmin()]
            raise MtkitError(
                f"no label has all features as finite numbers; '{name}' is rarest",
                "label other segments, or leave out what measures this feature",
            )
        features, right = features[known.all(axis=1)], right[known.all(axis=1)]
        means, scales = features.mean(axis=0), features.std(axis=0)
        scales = np.where(scales > 1e-9, scales, 1.0)
        rows = np.vstack([(features - means) / scales, np.zeros((2, len(names)))])
        rows = np.hstack([rows, np.ones((len(rows), 1))])
        wanted = np.append(right.astype(np.float64), [1.0, 0.0])
        counts = np.append(np.ones(len(right)), [0.5, 0.5])
        ridge = np.append(np.full(len(names), _RIDGE), 0.0)
        found = np.zeros(len(names) + 1)
        for _ in range(_MAX_STEPS):
            likely = _sigmoid((rows * found).sum(axis=1))
            # Not matrix products: the order of their sums depends on the number of threads.
            gradient = np.einsum("ij,i->j", rows, counts * (wanted - likely)) - ridge * found
            hessian = np.einsum("ij,i,ik->jk", rows, counts * likely * (1.0 - likely), rows)
            step = np.linalg.solve(hessian + np.diag(ridge), gradient)
            found += step / max(1.0, np.abs(step).max())
            if np.abs(step).max() < 1e-10:
                break
        weights = found.round(10).tolist()
        return cls(
            names=names,
            means=tuple(means.round(10).tolist()),
            scales=tuple(scales.round(10).tolist()),
            weights=tuple(weights[:-1]),
            intercept=weights[-1],
        )

    def estimate(self, columns: Mapping[str, Sequence[float]]) -> Matrix:
        """Returns each segment's probability of being right; 0 if a feature is missing."""
        features = stack(columns, self.names)
        known = _find_known(features)
        features = (np.where(known, features, 0.0) - np.array(self.means)) / np.array(self.scales)
        sums = (features * np.array(self.weights)).sum(axis=1) + self.intercept
        return np.where(known.all(axis=1), _sigmoid(sums), 0.0).round(_DIGITS)


def stack(columns: Mapping[str, Sequence[float]], names: Sequence[str]) -> Matrix:
    """Returns features as [segments, names]."""
    return np.array([columns[name] for name in names], np.float64).T


def _find_known(features: Matrix) -> Right:
    """Returns which features are numbers that an estimator can hold; others are missing."""
    return np.abs(features) <= _MAX_ABSOLUTE


def _sigmoid(numbers: Matrix) -> Matrix:
    return 1.0 / (1.0 + np.exp(-np.clip(numbers, -40.0, 40.0)))


_CountFromZero = Annotated[int, Field(ge=0, le=10_000_000)]


class Threshold(Section):
    """A threshold of the estimate: segments with at least as much are released."""

    at: Annotated[float, Field(gt=0.0, le=1.0)]
    fit_released: _CountFromZero
    """Released labels among those that fitted the estimate."""
    fit_wrong: _CountFromZero
    """Wrong ones among these."""
    released: _CountFromZero
    """Released labels among those that test."""
    wrong: _CountFromZero
    """Wrong ones among these."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.fit_wrong > self.fit_released or self.wrong > self.released:
            raise ValueError("more wrong labels than released ones")
        return self


def make_thresholds(
    fitted: tuple[Matrix, Right], tested: tuple[Matrix, Right]
) -> tuple[Threshold, ...]:
    """Returns thresholds, the strictest first: quantiles of the estimates of the fitted labels."""
    ordered = np.unique(fitted[0][fitted[0] > 0.0])[::-1]
    places = np.linspace(0, len(ordered) - 1, min(MAX_THRESHOLDS, len(ordered)))
    rows = (
        (at, *_count_at(*fitted, at), *_count_at(*tested, at))
        for at in ordered[places.round().astype(int)].tolist()
    )
    return tuple(Threshold(**dict(zip(Threshold.model_fields, row, strict=True))) for row in rows)


def _count_at(estimates: Matrix, right: Right, at: float) -> tuple[int, int]:
    released = estimates >= at
    return int(released.sum()), int((released & ~right).sum())


def choose_threshold(
    thresholds: Sequence[Threshold], risk: float, confidence: float
) -> Threshold | None:
    """Returns the loosest threshold that passes Learn then Test; None if none does.

    If it releases anything, the share of wrong segments among all that it releases is at most
    `risk`, with a probability of `confidence` over the draw of the labels.

    Why: thresholds, and where the tests begin, depend on the fitted labels alone. Given how many
    tested segments a threshold releases, the wrong ones are binomial with its true share, so
    `compute_binomial_cdf` is a valid p-value of "more than `risk` are wrong". Thresholds are tested
    one after the other, looser and looser, at the level 1 - confidence, up to the first that fails:
    fixed sequence testing (arXiv 2110.01052, sections 2 and 3, and algorithm 1), which needs no
    correction for their number. Its first threshold is the one that most probably passes by the
    fitted labels.
    """
    if not thresholds:
        return None

    def compute_power(each: Threshold) -> float:
        rate = (each.fit_wrong + 0.5) / (each.fit_released + 1.0)
        expected = round(each.fit_released * (1.0 - FIT_SHARE) / FIT_SHARE)
        allowed = count_allowed(expected, risk, confidence)
        return compute_binomial_cdf(allowed, expected, rate) if allowed >= 0 else 0.0

    powers = [compute_power(each) for each in thresholds]
    chosen = None
    for each in thresholds[powers.index(max(powers)) :]:
        if (
            not each.released
            or compute_binomial_cdf(each.wrong, each.released, risk) > 1.0 - confidence
        ):
            break
        chosen = each
    return chosen


def estimate_needed(
    thresholds: Sequence[Threshold], risk: float, confidence: float, num_labels: int
) -> int | None:
    """Returns about how many labels are needed to release anything; None if no number is enough."""
    found = []
    for each in thresholds:
        released, wrong = each.released + each.fit_released, each.wrong + each.fit_wrong
        share_wrong = (wrong + 0.5) / (released + 1.0)
        needed = count_needed(risk, confidence, share_wrong) if released else None
        if needed is not None:
            share = released / num_labels * (1.0 - FIT_SHARE)
            found.append(math.ceil(needed / share))
    return min(found, default=None)


def compute_roc_auc(estimates: Matrix, right: Right) -> float | None:
    """Returns the area under the ROC curve; None if all are right or all wrong.

    It is the probability that a right segment has a greater estimate than a wrong one, where equal
    ones count half.
    """
    good, bad = estimates[right], np.sort(estimates[~right])
    if not len(good) or not len(bad):
        return None
    below = np.searchsorted(bad, good, "left") + np.searchsorted(bad, good, "right")
    return float(below.sum()) / (2.0 * len(good) * len(bad))
