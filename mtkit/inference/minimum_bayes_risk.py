"""Minimum Bayes risk decoding (`inference.rerank`): candidates ordered by utility."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from mtkit.evaluation.utilities import measure_utilities
from mtkit.inference.translation import Hypothesis
from mtkit.recipe.inference import Rerank


def rank(candidates: Sequence[Hypothesis], settings: Rerank, n_best: int) -> list[Hypothesis]:
    """Returns the `n_best` candidates of the highest utility, best first, each text once.

    Of equal utilities the more probable candidate comes first, then the earlier one. There are
    fewer if fewer texts differ.
    """
    ordered = sorted(candidates, key=lambda each: -each.log_probability)
    counts = Counter(each.text for each in ordered)
    distinct: dict[str, Hypothesis] = {}
    for each in ordered:
        distinct.setdefault(each.text, each)
    utilities = measure_utilities(
        list(counts),
        list(counts.values()),
        settings.metric,
        aggregate=settings.aggregate,
        num_exact=0 if settings.prune is None else max(settings.prune, n_best),
    ).tolist()
    pairs = sorted(zip(distinct.values(), utilities, strict=True), key=lambda pair: -pair[1])
    return [replace(each, utility=utility) for each, utility in pairs[:n_best]]
