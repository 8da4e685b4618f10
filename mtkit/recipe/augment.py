"""The `data.augment` section: training examples made of others."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mtkit.recipe.section import RecipePath, Section, Share

Rate = Annotated[float, Field(gt=0.0, le=1.0)]


class Terms(Section):
    """Examples whose sources name translations of some of their words (arXiv 1906.01105).

    The base form of a translation follows the source word, between symbols, and the target has it
    in the form that the sentence needs. From such examples a model learns to inflect the terms of
    a glossary. `mtkit translate` with `--glossary` then annotates lines in the same way. Words and
    translations come from a dictionary, or else from word alignments of the training pairs.
    """

    dictionary: RecipePath | None = None
    """Words and their translations, in base form, as `--glossary` of `mtkit translate` takes
    them. In a recipe relative to `data.data_root`. Without one `mtkit prepare`
    aligns the pairs, or reads the `alignments` of a corpus, and annotates words by what they are
    aligned to, in the most frequent form. With one no alignment is read for terms."""
    rate: Rate = 0.2
    """Share of the pairs with such words on both sides from which an example is made."""
    max_terms: Annotated[int, Field(ge=1, le=20)] = 3
    """Maximum number of annotated terms in an example: words of the dictionary, or runs of up to
    three aligned words."""
    masked: Share = 0.0
    """Share of annotated terms whose source words are left out, so that the model has only the
    given translation (arXiv 2106.03730, section 2.2, masks them)."""
    invented: Share = 0.0
    """Share of annotated terms from alignments whose translation gets an invented stem, spliced
    from two real ones, in the annotation and in the target: the model must copy it. The ending
    stays, so that the model learns to inflect unknown words."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.invented and self.dictionary is not None:
            raise ValueError(
                f"invented = {self.invented} needs terms from alignments: remove it, or dictionary"
            )
        return self


class Placeholders(Section):
    """Examples in which words that both sides share are symbols, so that a model learns to copy.

    `inference.protect` then replaces what a translation would lose with these symbols.
    """

    rate: Rate = 0.05
    """Share of the pairs with such a word or number from which an example is made."""
    num_symbols: Annotated[int, Field(ge=1, le=64)] = 8
    """Number of different symbols, `<copy0>` and so on, each one piece of the vocabulary, and so
    the maximum number of different words in a line."""


class Casing(Section):
    """Examples in other casing, both sides alike."""

    upper: Share = 0.01
    """Share of the pairs that are also added in CAPITALS."""
    title: Share = 0.01
    """Share of the pairs of which one in Title Case is made."""
    lower: Share = 0.01
    """Share of the pairs of which one in lower case is made."""


class Typos(Section):
    """Examples with typing errors in the source; their targets stay."""

    rate: Rate = 0.05
    """Share of the pairs of which an example is made."""
    words: Rate = 0.1
    """Share of its words that get an error, at least one: two letters swapped, one left out, one
    doubled, or one replaced by another of the same word."""


class MissingPunctuation(Section):
    """Examples without the punctuation at their end, as in titles and informal text."""

    rate: Rate = 0.05
    """Share of the pairs with final punctuation of which an example is made."""
    sides: Literal["both", "source"] = "both"
    """Where it is left out; `source` teaches a model to add it."""


class Joined(Section):
    """Examples made of neighbouring pairs of a corpus, as lines of several sentences are.

    Sources and targets are joined by a space, or without one in a language that has none between
    sentences.
    """

    rate: Rate = 0.05
    """Share of the pairs that an example begins with; the next pairs of the corpus that aren't
    dropped follow. How many pairs it has is drawn evenly."""
    max_sentences: Annotated[int, Field(ge=2, le=8)] = 3
    """Maximum number of pairs in an example; the minimum is two."""


class Augment(Section):
    """Data augmentation: examples made from training pairs, and added to them.

    The development set isn't augmented. What is made from a pair depends only on the seed and
    its text, and for `joined` on the pairs that follow it.
    """

    placeholders: Placeholders | None = None
    """Symbols instead of words that both sides share, which a model learns to copy."""
    casing: Casing | None = None
    """Capitals, title case and lower case."""
    typos: Typos | None = None
    """Typing errors in the source."""
    missing_punctuation: MissingPunctuation | None = None
    """Pairs without final punctuation."""
    joined: Joined | None = None
    """Several neighbouring pairs as one."""
    terms: Terms | None = None
    """Sources that name translations of some of their words."""

    @model_validator(mode="after")
    def _makes_something(self) -> Self:
        if all(getattr(self, key) is None for key in type(self).model_fields):
            raise ValueError(
                f"nothing to do: give one of {', '.join(type(self).model_fields)}, or remove it"
            )
        return self
