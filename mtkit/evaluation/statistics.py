"""A metric's statistics of each sentence, and its value for any sum of them.

BLEU, chrF and TER of a test set are formulas over sums of counts, one row per sentence. sacreBLEU's
own code counts once; the formulas then score thousands of resampled test sets at once in numpy.
They repeat sacreBLEU's arithmetic operation by operation, so that even ties come out the same.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import MtkitError
from mtkit.evaluation.results import Interval, ScoreDifference, SystemScore
from mtkit.evaluation.scores import open_scorer, pair_sentences
from mtkit.executor import LocalExecutor
from mtkit.recipe.evaluation import Evaluation, TextMetric

Numbers = NDArray[Any]

# BLEU takes 0.0003 on a CPU of 2020, chrF++ 0.0008; it decides how the work is split, never the
# result.
_SECONDS_PER_SENTENCE = 0.0006
# Short enough for Ctrl-C, and for processes to end at about the same time.
_SECONDS_PER_BLOCK = 0.5
_MAX_EXPONENT = 700.0
"""e to this is a little less than the largest float."""
# chrF's n-grams of a reference take 100 kB.
_MAX_SENTENCES_PER_BLOCK = 500

TreeMetric = Literal["tree-precision", "tree-recall", "tree-f1", "tree-exact"]
"""EVALB's scores of trees."""
MetricName = (
    TextMetric | TreeMetric | Literal["comet", "perplexity", "bits", "accuracy", "macro-f1"]
)

_BLEU_ORDER = 4
_FLOOR = 0.1
_ADDED = 1
_LOG_OF_ZERO = -9999999999.0
_CHRF_BETA_SQUARED = 4


@dataclass(frozen=True, eq=False)
class Statistics:
    """One metric's sufficient statistics of one system's translations.

    Attributes:
        metric: The metric's word in a recipe.
        name: sacreBLEU's name of it, such as `chrF2`.
        signature: Everything that the value depends on, in sacreBLEU's form.
        higher_is_better: False for TER.
        value: The corpus score, in percentage points, by sacreBLEU itself.
        per_sentence: sacreBLEU's counts, [sentences, k]. BLEU: hypothesis and reference length,
            matches of orders 1 to 4, n-grams of orders 1 to 4. chrF: n-grams of the hypothesis, of
        the reference, and matches, for each order. TER: edits, and the references' average
        length, which may be fractional. COMET: score, and 1. Perplexity and bits: negative
            log-probability in nats, and the units that it is a mean over. Trees: constituents that
            match, of the hypothesis, of the reference; whether all match, and 1 if the sentence is
            scored.
        smooth: BLEU's smoothing; without effect on the others.
    """

    metric: MetricName
    name: str
    signature: str
    higher_is_better: bool
    value: float
    per_sentence: Numbers
    smooth: str = "exp"

    @classmethod
    def of(
        cls,
        metric: MetricName,
        name: str,
        signature: str,
        per_sentence: Numbers,
        *,
        higher_is_better: bool = True,
    ) -> "Statistics":
        """Returns the statistics of a metric that sacreBLEU lacks, with the value of their sum."""
        unscored = cls(metric, name, signature, higher_is_better, math.nan, per_sentence)
        return replace(unscored, value=float(unscored.score(per_sentence.sum(axis=0))))

    def as_score(
        self, interval: Interval | None = None, difference: ScoreDifference | None = None
    ) -> SystemScore:
        """Returns the value as a score, with its significance."""
        return SystemScore(
            self.name,
            self.value,
            self.signature,
            self.higher_is_better,
            interval,
            difference,
            self._describe_bleu() if self.metric == "bleu" else "",
        )

    def _describe_bleu(self) -> str:
        # Imported here, as in scores.py: it takes a moment.
        from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415

        lengths, matches, totals = np.split(self.per_sentence.sum(axis=0), [2, 2 + _BLEU_ORDER])
        score = BLEU.compute_bleu(
            matches.tolist(), totals.tolist(), int(lengths[0]), int(lengths[1]), self.smooth
        )
        text: str = score.format()
        return text.partition(" = ")[2].partition(" ")[2]

    def score(self, sums: Numbers) -> Numbers:
        """Returns the metric of sums of statistics, in percentage points; [..., k] becomes [...].

        Integers and double precision are computed in double precision, and the result equals
        sacreBLEU's corpus score of the same sentences to the last digit. Single precision stays
        single, as in sacreBLEU's bootstrap.
        """
        return self._score(sums, effective_order=False)

    def sentence_scores(self) -> NDArray[np.float64]:
        """Returns the score of each sentence, in percentage points, [sentences].

        As in sacreBLEU's `sentence_bleu`, `sentence_chrf` and `sentence_ter`: BLEU is the mean over
        the orders that the hypothesis is long enough for (sacreBLEU's effective order), where a
        corpus score is the mean over all four.
        """
        return np.nan_to_num(self._score(self.per_sentence, effective_order=True), nan=0.0)

    def _score(self, sums: Numbers, *, effective_order: bool) -> Numbers:
        if sums.dtype.kind != "f":
            sums = sums.astype(np.float64)
        match self.metric:
            case "bleu":
                return _compute_bleu(sums, self.smooth, effective_order=effective_order)
            case "chrf" | "chrf++":
                return _compute_chrf(sums)
            case "ter":
                return _compute_ter(sums)
            case "macro-f1":
                return _compute_macro_f1(sums)
            case "tree-precision" | "tree-recall" | "tree-f1" | "tree-exact":
                return _compute_of_trees(self.metric, sums)
            case metric:
                return _compute_of_mean(metric, sums)


def measure_systems(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    settings: Evaluation,
) -> dict[str, list[Statistics]]:
    """Returns the statistics of every system by every metric of the settings, in their order.

    References are analysed once for all systems. If worthwhile, as many processes as CPUs share the
    work; the result doesn't depend on their number.
    """
    if not systems:
        raise MtkitError("no systems to score")
    paired = {}
    for name, hypotheses in systems.items():
        paired[name], stripped_references = pair_sentences(hypotheses, references)
    for metric in settings.text_metrics:
        # A missing tokeniser should be reported before other work is done.
        open_scorer(metric, settings)
    portions = {
        metric: _cut(list(paired.values()), stripped_references, metric, settings)
        for metric in settings.text_metrics
    }
    every = [portion for cut in portions.values() for portion in cut]
    executor = LocalExecutor.for_work(sum(portion.seconds for portion in every), len(every))
    counted = executor.run(_make_counter, every)
    found = {metric: [next(counted) for _ in cut] for metric, cut in portions.items()}
    return {
        name: [
            _assemble(
                [counts[position] for counts in found[metric]],
                stripped_references,
                metric,
                settings,
            )
            for metric in settings.text_metrics
        ]
        for position, name in enumerate(paired)
    }


@dataclass(frozen=True)
class _Block:
    """Some sentences of all systems, for one process to count."""

    metric: TextMetric
    settings: Evaluation
    hypotheses: list[list[str]]
    references: list[list[str]]

    @property
    def seconds(self) -> float:
        """The estimated time."""
        return sum(map(len, self.hypotheses)) * _SECONDS_PER_SENTENCE


def _cut(
    systems: list[list[str]], references: list[list[str]], metric: TextMetric, settings: Evaluation
) -> list[_Block]:
    size = int(_SECONDS_PER_BLOCK / (_SECONDS_PER_SENTENCE * len(systems)))
    size = min(max(size, 1), _MAX_SENTENCES_PER_BLOCK)
    return [
        _Block(
            metric,
            settings,
            [hypotheses[first : first + size] for hypotheses in systems],
            [lines[first : first + size] for lines in references],
        )
        for first in range(0, len(references[0]), size)
    ]


def _make_counter() -> Callable[[_Block], list[Numbers]]:
    return _count


def _count(portion: _Block) -> list[Numbers]:
    """Returns [sentences, k] of each system, by sacreBLEU."""
    scorer = open_scorer(portion.metric, portion.settings, portion.references)
    return [
        # sacreBLEU's own tests of significance use this method.
        np.array(scorer._extract_corpus_statistics(hypotheses, None))
        for hypotheses in portion.hypotheses
    ]


def _assemble(
    counted: list[Numbers], references: list[list[str]], metric: TextMetric, settings: Evaluation
) -> Statistics:
    per_sentence = np.concatenate(counted)
    # A signature contains the number of reference sets, which the scorer takes from its input.
    scorer = open_scorer(metric, settings, [lines[:1] for lines in references])
    result = scorer._aggregate_and_compute(per_sentence.tolist())
    return Statistics(
        metric=metric,
        name=result.name,
        signature=str(scorer.get_signature().format()),
        higher_is_better=metric != "ter",
        value=float(result.score),
        per_sentence=per_sentence,
        smooth=settings.smooth,
    )


def _compute_of_mean(
    metric: Literal["comet", "accuracy", "perplexity", "bits"], sums: Numbers
) -> Numbers:
    """Returns a function of a mean, from [..., 2]: a sum and its count."""
    match metric:
        case "comet" | "accuracy":
            # A sentence or a resample may have no terms: NaN.
            counts = sums[..., 1]
            has_any = counts > 0
            return np.where(has_any, 100.0 * sums[..., 0] / np.where(has_any, counts, 1), np.nan)
        case "perplexity":
            means = np.asarray(sums[..., 0] / sums[..., 1], np.float64)
            return np.asarray(np.exp(np.minimum(means, _MAX_EXPONENT)))
        case "bits":
            return np.asarray(sums[..., 0] / sums[..., 1] / math.log(2.0))


def _compute_macro_f1(sums: Numbers) -> Numbers:
    """Returns macro-F1 of [..., 3 * labels], without labels that are neither found nor wanted."""
    right, found, wanted = np.split(sums, 3, axis=-1)
    has_any = found + wanted > 0
    f1 = 2.0 * right / np.where(has_any, found + wanted, 1.0)
    return np.asarray(100.0 * f1.sum(axis=-1) / np.maximum(has_any.sum(axis=-1), 1))


def _compute_of_trees(metric: TreeMetric, sums: Numbers) -> Numbers:
    """Returns a score of trees in percent, from [..., 5]; 0 for a denominator of 0."""
    right, found, wanted, exact, scored = np.moveaxis(sums, -1, 0)
    match metric:
        case "tree-precision":
            shares = right, found
        case "tree-recall":
            shares = right, wanted
        case "tree-f1":
            # 2 P R / (P + R)
            shares = 2.0 * right, found + wanted
        case "tree-exact":
            shares = exact, scored
    return np.asarray(100.0 * shares[0] / np.where(shares[1] > 0, shares[1], 1.0))


def _compute_bleu(sums: Numbers, smooth: str, *, effective_order: bool) -> Numbers:
    """Returns BLEU of [..., 10]; smoothing after Chen and Cherry (2014), aclweb.org/W14-3346."""
    lengths = sums[..., :2]
    matches = sums[..., 2 : 2 + _BLEU_ORDER]
    totals = sums[..., 2 + _BLEU_ORDER :]
    any_match = matches.any(-1)
    if smooth == "add-k":
        added = np.array([0] + [_ADDED] * (_BLEU_ORDER - 1), dtype=sums.dtype)
        matches, totals = matches + added, totals + added
    has_order = totals > 0
    missed = (matches == 0) & has_order
    # Where the divisor is 0, the quotient isn't used.
    divisors = np.where(has_order, totals, 1)
    precisions = 100.0 * matches / divisors
    if smooth == "exp":
        # Each order without a match counts half as much as the one before.
        halvings = (2.0 ** np.cumsum(missed, axis=-1)).astype(sums.dtype)
        precisions = np.where(missed, 100.0 / (halvings * divisors), precisions)
    elif smooth == "floor":
        precisions = np.where(missed, 100.0 * _FLOOR / divisors, precisions)
    precisions = np.where(has_order, precisions, 0.0)
    orders = has_order.sum(-1) if effective_order else np.full(any_match.shape, _BLEU_ORDER)
    columns = (lengths[..., 0], lengths[..., 1], *np.moveaxis(precisions, -1, 0))
    scores: Numbers = np.asarray(_combine(orders, *columns), dtype=np.float64)
    return np.where(any_match, scores, 0.0)


def _combine_precisions(
    order: int, hypothesis_length: float, reference_length: float, *precisions: float
) -> float:
    """Returns the geometric mean of the first precisions, times the brevity penalty."""
    if hypothesis_length == 0:
        return 0.0
    penalty = math.exp(min(0.0, 1 - reference_length / hypothesis_length))
    logarithms = [math.log(each) if each else _LOG_OF_ZERO for each in precisions[:order]]
    return penalty * math.exp(sum(logarithms) / order) if order else 0.0


# math's and numpy's logarithms may differ in the last bit, depending on the CPU. sacreBLEU uses
# math's, and one bit decides a tie between resamples.
_combine = np.frompyfunc(_combine_precisions, 3 + _BLEU_ORDER, 1)


def _compute_chrf(sums: Numbers) -> Numbers:
    """Returns chrF of [..., 3 * orders]: the F-score, beta 2, of average precision and recall."""
    num_hypothesis, num_reference, num_matches = (sums[..., part::3] for part in range(3))
    counts = (num_hypothesis > 0) & (num_reference > 0)
    # The summation order is sacreBLEU's; numpy's own sum may use another.
    precision = recall = np.zeros(sums.shape[:-1], sums.dtype)
    for order in range(counts.shape[-1]):
        here = counts[..., order]
        matches = np.where(here, num_matches[..., order], 0)
        precision = precision + matches / np.where(here, num_hypothesis[..., order], 1)
        recall = recall + matches / np.where(here, num_reference[..., order], 1)
    num_orders = np.maximum(counts.sum(-1), 1).astype(sums.dtype)
    precision, recall = precision / num_orders, recall / num_orders
    weighted = (1 + _CHRF_BETA_SQUARED) * precision * recall
    divisor = _CHRF_BETA_SQUARED * precision + recall
    # Without a match both are 0.
    scores: Numbers = 100 * (weighted / np.where(divisor > 0, divisor, 1))
    return scores


def _compute_ter(sums: Numbers) -> Numbers:
    """Returns TER of [..., 2]: edits per reference word; 100 if there are none."""
    edits, length = sums[..., 0], sums[..., 1]
    without_reference = np.where(edits > 0, 1, 0).astype(sums.dtype)
    has_reference = length > 0
    return 100 * np.where(
        has_reference, edits / np.where(has_reference, length, 1), without_reference
    )
