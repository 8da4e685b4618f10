"""Minimum Bayes risk decoding (`inference.rerank`): candidates ordered by utility."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from mtkit.evaluation.utilities import measure_utilities
from mtkit.inference.translation import Hypothesis
from mtkit.recipe.inference import Rerank, UtilityMetric

if TYPE_CHECKING:
    from mtkit.inference.learned_metric import Comet


def rank(
    candidates: Sequence[Hypothesis],
    settings: Rerank,
    n_best: int,
    *,
    source: str = "",
    learned: "Comet | None" = None,
) -> list[Hypothesis]:
    """Returns the `n_best` candidates of the highest utility, best first, each text once.

    Of equal utilities the more probable candidate comes first, then the earlier one. There are
    fewer if fewer texts differ. A learned metric, opened, also reads the source.
    """
    ordered = sorted(candidates, key=lambda each: -each.log_probability)
    counts = Counter(each.text for each in ordered)
    distinct: dict[str, Hypothesis] = {}
    for each in ordered:
        distinct.setdefault(each.text, each)
    if learned is not None:
        utilities = _measure_learned(counts, source, learned)
    else:
        utilities = measure_utilities(
            list(counts),
            list(counts.values()),
            cast("UtilityMetric", settings.metric),
            aggregate=settings.aggregate,
            num_exact=0 if settings.prune is None else max(settings.prune, n_best),
        ).tolist()
    pairs = sorted(zip(distinct.values(), utilities, strict=True), key=lambda pair: -pair[1])
    return [replace(each, utility=utility) for each, utility in pairs[:n_best]]


def _measure_learned(counts: Mapping[str, int], source: str, metric: "Comet") -> list[float]:
    """Returns each text's mean score against all, or its own by a metric without references."""
    references = counts if "ref" in metric.segments else {"": 1}
    rows = [(source, text, reference) for text in counts for reference in references]
    scores = metric.score(rows).reshape(len(counts), -1)
    return list(100.0 * scores @ np.array(list(references.values())) / sum(references.values()))
