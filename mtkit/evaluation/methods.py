"""Compares training methods by several runs of each, with the variance of seeds and of sentences.

A run's score depends on its seed and on the sentences of the test set. A difference between single
runs shows that two models differ, not that two methods do (Reimers and Gurevych 2017,
aclanthology.org/D17-1035).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from mtkit.evaluation.results import Interval
from mtkit.evaluation.significance import find_interval, score_resamples
from mtkit.evaluation.statistics import Statistics
from mtkit.recipe.evaluation import Significance

Numbers = NDArray[np.float64]

POWER = 0.8
"""Probability with which `num_runs_needed` runs show the difference."""
_MIN_DRAWS = 100_000
"""Enough for the ends of an interval with two runs, where Student's t has heavy tails."""


@dataclass(frozen=True)
class MethodDifference:
    """The difference of a method from the baseline: of the means of their runs.

    Attributes:
        interval: Of the methods' true difference, over seeds and sentences.
        p_value: Two-sided, by the same draws.
        num_runs_needed: Runs of each method that show a true difference of
            `evaluation.significance.difference` with a probability of 0.8; None if no number does,
            since the test set is too small.
    """

    value: float
    interval: Interval
    p_value: float
    seed_variance: float
    sentence_variance: float
    num_runs_needed: int | None


@dataclass(frozen=True)
class MethodScore:
    """A method's score by one metric, in percentage points.

    Attributes:
        method: The pattern of its runs.
        runs: The score of each run.
        value: Their mean.
        deviation: Their sample standard deviation (divisor n - 1).
        seed_variance: Of the mean, from the choice of seeds: the runs' variance by their number.
        sentence_variance: Of the mean, from the choice of sentences, for the same seeds.
        difference: None for the baseline.
    """

    test_set: str
    metric: str
    method: str
    num_sentences: int
    runs: tuple[float, ...]
    value: float
    deviation: float
    interval: Interval
    seed_variance: float
    sentence_variance: float
    signature: str
    difference: MethodDifference | None = None


@dataclass(frozen=True)
class _Spread:
    """The variation of a mean of runs, or of a difference of two such means.

    Attributes:
        resampled: Its value on resampled test sets, minus their mean, [resamples].
        disagreement: Variance of these that is from runs that disagree about sentences. Of a score
            with effects of sentence, run and both, Var(mean) = S / m + R / n + I / (m n) for m
            sentences and n runs. Resamples have S / m + I / (m n), and the runs' sample variance
            is R + I / m: the last part must not count twice.
        errors: The standard error over seeds of each mean, and its number of runs.
    """

    resampled: Numbers
    disagreement: float
    errors: tuple[tuple[float, int], ...]

    @classmethod
    def of(cls, values: Numbers, resampled: Numbers) -> "_Spread":
        """Returns a method's spread from its runs' scores, [runs], and [runs, resamples]."""
        num_runs = len(values)
        means = resampled.mean(axis=0)
        disagreement = (resampled - means).var(axis=1, ddof=1).mean() / (num_runs - 1)
        error = float(values.std(ddof=1)) / math.sqrt(num_runs)
        return cls(means - means.mean(), float(disagreement), ((error, num_runs),))

    def minus(self, other: "_Spread") -> "_Spread":
        """Returns the spread of a difference on the same sentences."""
        return _Spread(
            self.resampled - other.resampled,
            self.disagreement + other.disagreement,
            self.errors + other.errors,
        )

    @property
    def seed_variance(self) -> float:
        return sum(error**2 for error, _ in self.errors)

    @property
    def sentence_variance(self) -> float:
        return max(0.0, float(self.resampled.var(ddof=1)) - self.disagreement)

    def draw(self, value: float, seed: int) -> Numbers:
        """Returns values that the data allow for the true mean.

        Sentences are resampled. Seeds are too few for that: resamples of three have two thirds of
        the variance. Their part is normal, and the sum has the tails of Student's t with Welch and
        Satterthwaite's degrees of freedom.
        """
        variance = float(self.resampled.var(ddof=1))
        share = self.sentence_variance / variance if variance > 0.0 else 0.0
        repeats = -(-_MIN_DRAWS // len(self.resampled))
        drawn = np.tile(math.sqrt(share) * self.resampled, repeats)
        generator = np.random.default_rng(seed)
        drawn += generator.normal(0.0, math.sqrt(self.seed_variance), len(drawn))
        uncertain = sum(error**4 / (num_runs - 1) for error, num_runs in self.errors)
        if uncertain > 0.0:
            degrees = (self.seed_variance + self.sentence_variance) ** 2 / uncertain
            drawn /= np.sqrt(generator.chisquare(degrees, len(drawn)) / degrees)
        return value + drawn


def compare_methods(
    test_set: str,
    methods: Mapping[str, Mapping[str, Sequence[Statistics]]],
    settings: Significance,
) -> list[MethodScore]:
    """Returns each method's score by each metric, and the first's difference from the second.

    Args:
        test_set: Its name.
        methods: One or two methods: the statistics of each run by each metric. Runs have different
            names, and each method at least two.
        settings: Resamples, seed, confidence and the difference to plan for.
    """
    runs = {name: found for method in methods.values() for name, found in method.items()}
    resampled = score_resamples(runs, settings.resamples, settings.seed)
    scores = []
    for index, statistics in enumerate(next(iter(runs.values()))):
        found = []
        for method, of_runs in methods.items():
            values = np.array([each[index].value for each in of_runs.values()])
            drawn = np.array([resampled[name][index] for name in of_runs], np.float64)
            # All runs have the same resamples without anything to score.
            drawn = drawn[:, ~np.isnan(drawn).any(axis=0)]
            found.append((method, values, _Spread.of(values, drawn)))
        for method, values, spread in found:
            value = float(values.mean())
            difference = None
            if len(found) == 2 and method == found[0][0]:
                difference = _describe_difference(
                    value - float(found[1][1].mean()), spread.minus(found[1][2]), found, settings
                )
            scores.append(
                MethodScore(
                    test_set=test_set,
                    metric=statistics.name,
                    method=method,
                    num_sentences=len(statistics.per_sentence),
                    runs=tuple(values.tolist()),
                    value=value,
                    deviation=float(values.std(ddof=1)),
                    interval=find_interval(spread.draw(value, settings.seed), settings.confidence),
                    seed_variance=spread.seed_variance,
                    sentence_variance=spread.sentence_variance,
                    signature=statistics.signature,
                    difference=difference,
                )
            )
    return scores


def _describe_difference(
    value: float,
    spread: _Spread,
    found: Sequence[tuple[str, Numbers, _Spread]],
    settings: Significance,
) -> MethodDifference:
    drawn = spread.draw(value, settings.seed)
    on_other_side = int(min((drawn <= 0.0).sum(), (drawn >= 0.0).sum()))
    return MethodDifference(
        value,
        find_interval(drawn, settings.confidence),
        min(1.0, 2 * (on_other_side + 1) / (len(drawn) + 1)),
        spread.seed_variance,
        spread.sentence_variance,
        count_runs_needed(
            sum(float(values.var(ddof=1)) for _, values, _ in found),
            spread.sentence_variance,
            settings,
        ),
    )


def count_runs_needed(
    run_variance: float, sentence_variance: float, settings: Significance
) -> int | None:
    """Returns how many runs of each method show a difference of `settings.difference`.

    With n runs the difference's variance is `run_variance` / n, where `run_variance` is the sum of
    both methods' variances of a single run, plus `sentence_variance`. It is shown at the settings'
    confidence, two-sided, with a probability of `POWER`, if the normal distribution holds. None: no
    number of runs on this test set suffices.
    """
    normal = NormalDist()
    quantiles = normal.inv_cdf(0.5 + settings.confidence / 2) + normal.inv_cdf(POWER)
    left = (settings.difference / quantiles) ** 2 - sentence_variance
    return max(2, math.ceil(run_variance / left)) if left > 0.0 else None
