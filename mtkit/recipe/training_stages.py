"""The `training.stages` list: updates that read the corpora with weights of their own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from mtkit.recipe.corpora import MIN_WEIGHT, Corpus, corpus_names
from mtkit.recipe.section import Count, Section


def _refuse_tiny(weight: float) -> float:
    if 0 < weight < MIN_WEIGHT:
        raise ValueError(f"expected 0, or a weight of at least {MIN_WEIGHT}, found {weight:g}")
    return weight


class TrainingStage(Section):
    """Consecutive updates in which some corpora have other weights; they begin with a new epoch."""

    steps: Count | None = None
    """Number of updates. The last stage may omit it, and then lasts until `max_steps`; after a last
    stage with it, the weights of `data.train` apply."""
    weights: dict[str, Annotated[float, Field(ge=0, le=1000), AfterValidator(_refuse_tiny)]]
    """A corpus's `weight` in this stage, by its name; 0 leaves it out. The others keep theirs."""


@dataclass(frozen=True)
class WeightedUpdates:
    """Consecutive updates that read the corpora with the same weights.

    Attributes:
        first: Updates before these.
        count: None for all that follow.
        weights: By corpus.
    """

    first: int
    count: int | None
    weights: tuple[float, ...]


def list_stages(
    stages: Sequence[TrainingStage] | None, train: Sequence[Corpus]
) -> list[WeightedUpdates]:
    """Returns all updates of a training in stages; one without end if the recipe has none."""
    own = dict(zip(corpus_names(train), (corpus.weight for corpus in train), strict=True))
    listed, first = list[WeightedUpdates](), 0
    for stage in stages or ():
        listed.append(WeightedUpdates(first, stage.steps, tuple((own | stage.weights).values())))
        first += stage.steps or 0
    if not listed or listed[-1].count is not None:
        listed.append(WeightedUpdates(first, None, tuple(own.values())))
    return listed
