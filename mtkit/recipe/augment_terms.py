"""The `data.augment.terms` section: examples that say how words of theirs are translated."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from mtkit.recipe.section import RecipePath, Section


class Terms(Section):
    """Examples whose sources name translations of some of their words (arXiv 1906.01105).

    Behind a word of the source stands the base form of its translation, between symbols, and the
    target has it in whatever form the sentence needs: so a model learns to inflect what a glossary
    gives. `mtkit translate` with `--glossary` then annotates lines in the same way. Words and their
    translations come from a dictionary, or else from word alignments of the training pairs.
    """

    dictionary: RecipePath | None = None
    """Words and their translations, in base form, as `--glossary` of `mtkit translate` takes
    them; a relative path in a recipe starts from `data.data_root`. Without one `mtkit prepare`
    aligns the pairs, or reads the `alignments` of a corpus, and annotates words by what they are
    aligned to, in the most frequent form. With one no alignment is read for terms."""
    rate: Annotated[float, Field(gt=0.0, le=1.0)] = 0.2
    """Share of the pairs with such words on both sides that an example is made of."""
    max_terms: Annotated[int, Field(ge=1, le=20)] = 3
    """Terms of an example that are annotated, at most: words of the dictionary, or runs of up to
    three words that are aligned."""
    masked: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Share of annotated terms whose source words are left out, so that the translation that is
    given is all there is to go by (arXiv 2106.03730, section 2.2, masks them)."""
    invented: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Share of annotated terms that come from alignments whose translations get a stem that is no
    word, spliced of two that are, as given and in the target alike: a model can only read them. Its
    ending stays, so that it learns to inflect what it doesn't know."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.invented and self.dictionary is not None:
            raise ValueError(
                f"invented = {self.invented} needs terms from alignments: remove it, or dictionary"
            )
        return self
