"""The `data.augment` section: training examples made of others."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mtkit.recipe.augment_terms import Terms
from mtkit.recipe.section import Section

Rate = Annotated[float, Field(gt=0.0, le=1.0)]
RateFromZero = Annotated[float, Field(ge=0.0, le=1.0)]


class Placeholders(Section):
    """Examples in which words that both sides share are symbols, so that a model learns to copy.

    `inference.protect` then puts these symbols in place of what a translation lost.
    """

    rate: Rate = 0.05
    """Share of the pairs with such a word or number that an example is made of."""
    num_symbols: Annotated[int, Field(ge=1, le=64)] = 8
    """Number of different symbols, `<copy0>` and so on, each one piece of the vocabulary: as many
    words of a line can be told apart."""


class Casing(Section):
    """Examples in other casing, both sides alike."""

    upper: RateFromZero = 0.01
    """Share of the pairs of which an example in CAPITALS is made."""
    title: RateFromZero = 0.01
    """Share of the pairs of which one in Title Case is made."""
    lower: RateFromZero = 0.01
    """Share of the pairs of which one in lower case is made."""


class Typos(Section):
    """Examples with typing errors in the source; their targets stay."""

    rate: Rate = 0.05
    """Share of the pairs of which an example is made."""
    words: Rate = 0.1
    """Share of its words that get an error, one at least: two letters swapped, one left out, one
    doubled, or one replaced by another of the same word."""


class MissingPunctuation(Section):
    """Examples without the punctuation at their end, as in titles and in hasty writing."""

    rate: Rate = 0.05
    """Share of the pairs with final punctuation of which an example is made."""
    sides: Literal["both", "source"] = "both"
    """Where it is left out; `source` teaches a model to add it."""


class Augment(Section):
    """Training examples that are made of others, and added to them; the development set has none.

    What becomes of a pair depends on the seed and its text alone.
    """

    placeholders: Placeholders | None = None
    """Symbols in place of words that both sides share, which a model learns to copy."""
    casing: Casing | None = None
    """Capitals, title case and lower case."""
    typos: Typos | None = None
    """Typing errors in the source."""
    missing_punctuation: MissingPunctuation | None = None
    """Pairs without final punctuation."""
    terms: Terms | None = None
    """Sources that name translations of some of their words."""

    @model_validator(mode="after")
    def _makes_something(self) -> Self:
        if all(getattr(self, key) is None for key in type(self).model_fields):
            raise ValueError(
                f"nothing to do: give one of {', '.join(type(self).model_fields)}, or remove it"
            )
        return self
