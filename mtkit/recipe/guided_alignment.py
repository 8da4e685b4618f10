"""The `training.guided_alignment` section: one head of attention learns given word alignments."""

from typing import Annotated, Literal

from pydantic import Field

from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.section import Section, Strength


class GuidedAlignment(Section):
    """A loss on one head of the decoder's cross-attention, in addition to the translator's loss.

    Cross entropy of the head's weights against the words that each target word is aligned to
    (arXiv 1909.02074, section 4.2), for each piece of both; unaligned pieces don't count. The
    head becomes that of `alignment.json`. Alignments are those that a corpus of `data.train` names
    (`alignments`); `mtkit prepare` aligns the other corpora itself.
    """

    weight: Annotated[Strength, Invalidates.RUN] = 0.05
    """The loss is multiplied by it and, like the translator's, divided by all target tokens; 0.05
    is the paper's."""
    layer: Annotated[int, Field(ge=1), Invalidates.RUN] | None = None
    """The decoder's layer, from 1; default: the last but one, as in the paper, or the only one."""
    head: Annotated[int, Field(ge=1), Invalidates.RUN] = 1
    """The head of that layer, from 1."""
    at: Annotated[Literal["input", "output"], Invalidates.RUN] = "output"
    """The position whose attention learns a target token's alignment: where the token is predicted
    (`output`, as in the paper), or where it is the decoder's input and known (`input`, arXiv
    2004.14675)."""

    def choose_layer(self, num_layers: int) -> int:
        """Returns the layer's number in a decoder of `num_layers`."""
        return self.layer or max(num_layers - 1, 1)
