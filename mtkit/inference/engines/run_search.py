"""Which search settings ask for, and what outputs must be."""

from collections.abc import Sequence

from jaxtyping import Int
from torch import Tensor

from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.search.beam import beam_search
from mtkit.inference.search.greedy import greedy_search
from mtkit.inference.search.rules import OutputRules
from mtkit.inference.search.sampling import sample
from mtkit.inference.search.step_model import StepModel
from mtkit.inference.translation import Hypothesis
from mtkit.recipe.inference import Inference


def split_by_search(sources: Sequence[EncodedSource], settings: Inference) -> list[list[int]]:
    """Returns the sources' indices in groups, each of which one search can take.

    With a beam of 1 most have a greedy search, and those with phrases that an output must contain
    a beam search, which finds others.
    """
    if settings.beam_size > 1:
        return [list(range(len(sources)))]
    groups: tuple[list[int], list[int]] = [], []
    for index, source in enumerate(sources):
        groups[bool(source.required)].append(index)
    return [group for group in groups if group]


def run_search(
    model: StepModel,
    sources: Sequence[EncodedSource],
    settings: Inference,
    limits: Int[Tensor, " batch"],
) -> list[list[Hypothesis]]:
    """Returns each source's hypotheses, by the search that they and the settings ask for.

    Args:
        model: What has read the sources.
        sources: What is translated together.
        settings: How to search.
        limits: Maximum output length of each, `</s>` counted.
    """
    required = [source.required for source in sources]
    rules = OutputRules(
        [source.forced for source in sources],
        num_certain=[len(source.begin) for source in sources],
        min_length=settings.min_length,
        no_repeat_ngram=settings.no_repeat_ngram,
        forbidden=[source.forbidden for source in sources],
    )
    if settings.sampling is not None:
        return sample(
            model,
            limits,
            sampling=settings.sampling,
            num_samples=settings.n_best,
            draws=[source.draw for source in sources],
            penalty=settings.length_penalty,
            rules=rules,
        )
    if settings.beam_size == 1 and not any(required):
        return greedy_search(model, limits, settings.length_penalty, rules)
    return beam_search(
        model,
        limits,
        beam_size=settings.beam_size,
        n_best=settings.n_best,
        penalty=settings.length_penalty,
        coverage=settings.coverage_penalty,
        stop_margin=settings.stop_margin,
        rules=rules,
        required=required,
    )
