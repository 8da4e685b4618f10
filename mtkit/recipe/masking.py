"""How the text of a masked language model is masked."""

from typing import Annotated

from pydantic import Field, model_validator

from mtkit.recipe.section import Section, Share


class Masking(Section):
    """How a masked language model's text is masked (BERT, arXiv 1810.04805, section 3.1).

    Which tokens, and by what, is a pure function of seed, epoch and block.
    """

    share: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.15
    """Share of the tokens that are predicted."""
    mask: Share = 0.8
    """Share of those that `<mask>` replaces."""
    random: Share = 0.1
    """Share of those that a random piece replaces; the rest stay."""
    next_sentence: bool = True
    """Also predict whether a block's second segment follows its first, as it does in half of the
    blocks of several sentences; in all others it is of another document."""
    short_tokens: Annotated[int, Field(ge=8)] | None = None
    """Length of blocks in the first updates, 128 in BERT; default: `data.block_tokens`. Updates
    hold as many tokens (`training.batch_tokens`), in more blocks."""
    short_updates: Share = 0.9
    """Share of `max_steps` that is made with short blocks."""

    @model_validator(mode="after")
    def _shares_fit(self) -> "Masking":
        if self.mask + self.random > 1.0:
            raise ValueError("mask and random are shares of the same tokens: together at most 1")
        return self
