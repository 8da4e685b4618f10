"""Utilities of minimum Bayes risk decoding: how well a text scores against others like it.

numpy counts the n-grams of all texts together, each text once; statistics.py has the formulas.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.evaluation.scores import open_scorer
from mtkit.evaluation.statistics import Statistics
from mtkit.recipe.evaluation import Evaluation
from mtkit.recipe.inference import UtilityMetric

Integers = NDArray[np.int64]
Scores = NDArray[np.float64]

_MAX_ORDER = {"chrf": 6, "bleu": 4}
_DIGITS = 10
"""Sums in another order differ in later digits, and equal utilities shouldn't."""
_MAX_CELLS = 1 << 22
"""Size of a table in memory: of texts and n-grams, or of statistics of pairs of texts."""


def measure_utilities(
    texts: Sequence[str],
    weights: Sequence[int],
    metric: UtilityMetric,
    *,
    aggregate: bool = False,
    num_exact: int = 0,
) -> Scores:
    """Returns each text's mean score against all texts, itself included, in percentage points.

    A text counts as `weight` references. Scores are sacreBLEU's of sentences: `CHRF()`, or
    `BLEU(effective_order=True)`.

    With `aggregate`, a text is scored against one reference instead, the mean of all (arXiv
    2402.04251; DeNero et al. 2009): it has r(g) = sum of weight * count(g) / sum of weights of each
    n-gram g, a text matches min(count(g), r(g)) of them, and its length is the mean length. Then
    the best `num_exact` texts, the earlier ones of equals, are scored as without `aggregate`, and
    the others' utilities are minus infinity; 0 leaves all as they are.
    """
    counted = _Counted.of(texts, metric)
    shares = np.array(weights) / sum(weights)
    rows = np.arange(len(texts))
    if aggregate:
        utilities = counted.score_against_mean(shares)
        if not num_exact:
            return utilities
        rows = np.argsort(-utilities, kind="stable")[:num_exact]
    found = np.full(len(texts), -math.inf)
    found[rows] = counted.score(rows, shares)
    return found


@dataclass(frozen=True)
class _Ngrams:
    """N-grams of one order: an entry for each text and each n-gram in it, sorted by n-gram."""

    texts: Integers
    ngrams: Integers
    counts: Integers
    num_texts: int

    def match(self, rows: Integers) -> Scores:
        """Returns how many n-grams of these texts are in each text, [rows, texts]."""
        found = np.zeros((len(rows), self.num_texts))
        if not len(self.counts):
            return found
        # An n-gram's k-th occurrence in a text is a column: both have min(count) of them in common.
        begins = np.flatnonzero(np.diff(self.ngrams, prepend=-1))
        max_counts = np.maximum.reduceat(self.counts, begins)
        firsts = np.cumsum(max_counts) - max_counts
        numbers = np.arange(self.counts.sum())
        numbers -= np.repeat(np.cumsum(self.counts) - self.counts, self.counts)
        columns = np.repeat(firsts[self.ngrams], self.counts) + numbers
        owners = np.repeat(self.texts, self.counts)
        width = max(1, _MAX_CELLS // self.num_texts)
        for begin in range(0, int(max_counts.sum()), width):
            here = (columns >= begin) & (columns < begin + width)
            table = np.zeros(
                (self.num_texts, min(width, int(max_counts.sum()) - begin)), np.float32
            )
            table[owners[here], columns[here] - begin] = 1.0
            found += table[rows] @ table.T
        return found

    def match_mean(self, shares: Scores) -> Scores:
        """Returns how many of each text's n-grams the mean of all texts has."""
        means = np.bincount(self.ngrams, self.counts * shares[self.texts])
        common = np.minimum(self.counts, means[self.ngrams])
        return np.bincount(self.texts, common, self.num_texts).astype(np.float64)


@dataclass(frozen=True)
class _Counted:
    """The n-grams of texts, by order; `totals` [texts, orders]."""

    metric: UtilityMetric
    orders: tuple[_Ngrams, ...]
    totals: Scores

    @classmethod
    def of(cls, texts: Sequence[str], metric: UtilityMetric) -> "_Counted":
        parts = _split_characters(texts) if metric == "chrf" else _split_words(texts)
        max_order = _MAX_ORDER[metric]
        lengths = np.array([[float(len(each))] for each in parts])
        totals = np.maximum(lengths - np.arange(max_order), 0.0)
        return cls(metric, tuple(_count_ngrams(parts, max_order)), totals)

    def score(self, rows: Integers, shares: Scores) -> Scores:
        """Returns the mean score of some of the texts against all."""
        matches = np.stack([each.match(rows) for each in self.orders], axis=-1)
        num_parts = min(len(rows), 1 + 4 * matches.size // _MAX_CELLS)
        means: list[Scores] = []
        for part, of_part in zip(
            np.array_split(rows, num_parts), np.array_split(matches, num_parts), strict=True
        ):
            scores = self._score(self.totals[part, None], self.totals, of_part)
            # Not a matrix product, whose order of addition depends on where the numbers lie.
            means.append((scores * shares).sum(axis=-1))
        return np.concatenate(means).round(_DIGITS)

    def score_against_mean(self, shares: Scores) -> Scores:
        """Returns each text's score against the mean of all."""
        matches = np.stack([each.match_mean(shares) for each in self.orders], axis=-1)
        means = (self.totals * shares[:, None]).sum(axis=0)
        return self._score(self.totals, means, matches).round(_DIGITS)

    def _score(self, totals: Scores, of_reference: Scores, matches: Scores) -> Scores:
        totals, of_reference = (
            np.broadcast_to(each, matches.shape) for each in (totals, of_reference)
        )
        if self.metric == "chrf":
            sums = np.stack([totals, of_reference, matches], axis=-1)
            sums = sums.reshape(*matches.shape[:-1], -1)
        else:
            lengths = [totals[..., :1], of_reference[..., :1]]
            sums = np.concatenate([*lengths, matches, totals], axis=-1)
        scored = Statistics(
            self.metric, "", "", higher_is_better=True, value=math.nan, per_sentence=sums
        )
        return scored.sentence_scores()


def _count_ngrams(parts: Sequence[Integers], max_order: int) -> Iterator[_Ngrams]:
    lengths = np.array([len(each) for each in parts])
    owners = np.repeat(np.arange(len(parts)), lengths)
    places = np.arange(len(owners)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    known, tokens = np.unique(np.concatenate(parts), return_inverse=True)
    # The n-gram of the order before that ends at each token.
    last = np.zeros_like(tokens)
    for order in range(max_order):
        ends = np.flatnonzero(places >= order)
        grown = last[ends - 1] * len(known) + tokens[ends]
        pairs, entry_of, counts = np.unique(
            grown * len(parts) + owners[ends], return_inverse=True, return_counts=True
        )
        ngrams, texts = np.divmod(pairs, len(parts))
        ngrams = np.cumsum(np.diff(ngrams, prepend=ngrams[:1]) != 0)
        yield _Ngrams(texts, ngrams, counts, len(parts))
        last = np.zeros_like(tokens)
        last[ends] = ngrams[entry_of]


def _split_characters(texts: Sequence[str]) -> list[Integers]:
    encoded = ("".join(text.split()).encode("utf-32-le", "surrogatepass") for text in texts)
    return [np.frombuffer(each, np.uint32).astype(np.int64) for each in encoded]


def _split_words(texts: Sequence[str]) -> list[Integers]:
    split = [_open_bleu()._preprocess_segment(text).split() for text in texts]
    numbers: dict[str, int] = {}
    for word in chain.from_iterable(split):
        numbers.setdefault(word, len(numbers))
    return [np.array([numbers[word] for word in words], np.int64) for words in split]


@cache
def _open_bleu() -> Any:
    return open_scorer("bleu", Evaluation(tokenize="13a"))
