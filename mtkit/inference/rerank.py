"""Orders candidates as `inference.rerank` says: by minimum Bayes risk and other models' scores."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import cast

import numpy as np
from numpy.typing import NDArray

from mtkit.evaluation.learned import LearnedMetric
from mtkit.evaluation.utilities import measure_utilities
from mtkit.inference.line import RankedPart
from mtkit.inference.request import Request
from mtkit.inference.streams.byte_lines import Answer, answer_each
from mtkit.inference.translation import Hypothesis
from mtkit.recipe.inference import Rerank, UtilityMetric

Numbers = NDArray[np.float64]

_UNSCORED = -100.0
"""Log-probability per token of a candidate that a model can't score: empty, or too long."""


@dataclass(frozen=True)
class ModelScorer:
    """Another model of `inference.rerank.models`, opened; threads may share it."""

    score_lines: Answer
    is_reverse: bool

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Returns log-probabilities per token, of each target or of the source given the target."""
        requests = [Request(*(pair[::-1] if self.is_reverse else pair)) for pair in pairs]
        found = answer_each(requests, self.score_lines)
        return [
            _UNSCORED
            if scored is None or not text.strip()
            else score_per_token(scored.candidates[0])
            for (_, text), scored in zip(pairs, found, strict=True)
        ]


@dataclass(frozen=True)
class Ranker:
    """Orders the candidates of a part by `inference.rerank`, with the folders that it names.

    Attributes:
        metric: The folder of `learned`.
        models: The models by their folders.
    """

    metric: str = ""
    learned: LearnedMetric | None = None
    models: Mapping[Path, ModelScorer] = field(default_factory=dict)

    def opens(self, settings: Rerank) -> bool:
        """Checks whether all folders that settings name are open."""
        knows_metric = not settings.is_learned or settings.metric == self.metric
        return knows_metric and all(model.path in self.models for model in settings.models)

    def __call__(self, parts: Sequence[RankedPart]) -> list[list[Hypothesis]]:
        """Returns the candidates of each, best first; in the search's order without `rerank`."""
        # Scored together, since small batches are slow.
        scores: dict[tuple[Path, str, str], float] = {}
        for path, model in self.models.items():
            pairs = dict.fromkeys(
                (part.source.text, each.text)
                for part in parts
                if part.settings.rerank is not None and path in part.settings.rerank.paths
                for each in part.candidates
            )
            found = model.score(list(pairs))
            scores |= {(path, *pair): score for pair, score in zip(pairs, found, strict=True)}
        return [
            candidates
            if settings.rerank is None
            else self.rank(
                candidates, settings.rerank, settings.n_best, source=source.text, scores=scores
            )
            for source, candidates, settings in parts
        ]

    def rank(
        self,
        candidates: Sequence[Hypothesis],
        settings: Rerank,
        n_best: int,
        *,
        source: str = "",
        scores: Mapping[tuple[Path, str, str], float] = MappingProxyType({}),
    ) -> list[Hypothesis]:
        """Returns the `n_best` best candidates, best first, each text once.

        Of equal candidates the more probable one comes first, then the earlier one. There are fewer
        if fewer texts differ. A learned metric also reads the source; `scores` are those of models,
        by folder, source and text.
        """
        ordered = sorted(candidates, key=lambda each: -each.log_probability)
        counts = Counter(each.text for each in ordered)
        distinct: dict[str, Hypothesis] = {}
        for each in ordered:
            distinct.setdefault(each.text, each)
        texts = list(distinct)
        totals = np.array([score_per_token(each) for each in distinct.values()])
        totals *= settings.translator_weight
        utilities: list[float | None] = [None] * len(texts)
        if settings.utility_weight:
            measured = self._measure_utilities(counts, source, settings, n_best)
            totals, utilities = totals + settings.utility_weight * measured, measured.tolist()
        by_model = [
            [scores[model.path, source, text] for text in texts] for model in settings.models
        ]
        for model, of_model in zip(settings.models, by_model, strict=True):
            totals += model.weight * np.array(of_model)
        best = np.argsort(-totals, kind="stable")[:n_best].tolist()
        return [
            replace(
                distinct[texts[index]],
                utility=utilities[index],
                model_scores=tuple(of_model[index] for of_model in by_model),
            )
            for index in best
        ]

    def _measure_utilities(
        self, counts: Mapping[str, int], source: str, settings: Rerank, n_best: int
    ) -> Numbers:
        if settings.is_learned:
            assert self.learned is not None, "the translator opens it"
            return _measure_learned(counts, source, self.learned)
        return measure_utilities(
            list(counts),
            list(counts.values()),
            cast("UtilityMetric", settings.metric),
            aggregate=settings.aggregate,
            num_exact=0 if settings.prune is None else max(settings.prune, n_best),
        )


def score_per_token(candidate: Hypothesis) -> float:
    """Returns a candidate's log-probability per token."""
    return candidate.log_probability / max(1, len(candidate.pieces))


def _measure_learned(counts: Mapping[str, int], source: str, metric: LearnedMetric) -> Numbers:
    """Returns each text's mean score against all, or its own by a metric without references."""
    references = counts if metric.needs_reference else {"": 1}
    rows = [(source, text, reference) for text in counts for reference in references]
    scores = metric.score(rows).reshape(len(counts), -1)
    found: Numbers = 100.0 * scores @ np.array(list(references.values()))
    return found / sum(references.values())
