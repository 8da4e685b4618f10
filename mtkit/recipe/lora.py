"""The `training.lora` section: low-rank updates instead of the weights themselves."""

from typing import Annotated, Literal

from pydantic import Field

from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.model import Rate
from mtkit.recipe.section import Section, Strength

MapKind = Literal["query", "key", "value", "output", "feed-forward"]
"""Linear maps of a layer: queries, keys, values and output of each attention; both of the
feed-forward sub-layer."""


class Lora(Section):
    """LoRA (arXiv 2106.09685): the weights are frozen, and low-rank updates of maps are learned.

    The network computes with W + alpha / rank * B A instead of W, where A and B are as narrow as
    `rank`. Only they have gradients and Adam's moments, and only they are in checkpoints, so that
    the model that training starts from is needed until its end.
    """

    rank: Annotated[int, Field(ge=1, le=1_024)] = 8
    """Rank of each update."""
    alpha: Strength = 16.0
    """Updates are multiplied by alpha / rank."""
    maps: Annotated[tuple[MapKind, ...], Field(min_length=1)] = ("query", "value")
    """Which maps are updated, in every layer: `query`, `key`, `value`, `output` of each attention;
    `feed-forward`, both of its maps. Queries and values are the paper's choice (section 7.1)."""
    dropout: Rate = 0.0
    """Dropout on the input of an update."""
    train_embeddings: bool = False
    """Also train all of the embeddings, the output projection and its bias: needed for new pieces
    of the vocabulary."""
    release: Annotated[Literal["merged", "adapter"], Invalidates.RESULTS] = "merged"
    """`merged`: `model/` is a model like any other, with the updates in its weights. `adapter`: it
    holds only the updates, a fraction of the size, and needs the model that training started from,
    which must stay where it is."""

    @property
    def scale(self) -> float:
        """What updates are multiplied by."""
        return self.alpha / self.rank
