"""The `tokenizer` section: how text becomes subword tokens."""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from mtkit.recipe.section import Section


class Tokenizer(Section):
    """A SentencePiece model (arXiv 1808.06226), trained by `mtkit prepare`."""

    kind: Literal["bpe", "unigram"] = "bpe"
    """Subword algorithm: byte-pair encoding (arXiv 1508.07909) or unigram (arXiv 1804.10959)."""
    vocab_size: Annotated[int, Field(ge=16, le=1_000_000)] = 8_000
    """Number of pieces, special ones included; of each side where `joint` is false."""
    joint: bool = True
    """One vocabulary for both languages; needed by three-way tied embeddings."""
    normalization: Literal["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"] = "nmt_nfkc"
    """SentencePiece's normalisation rule; `identity` leaves text as it is, which tokenised text
    needs to survive a round trip."""
    character_coverage: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Share of the characters in the sample that the vocabulary must cover; 0.9995 suits Chinese
    and Japanese."""
    split_by_unicode_script: bool = True
    """Never let a piece span two scripts."""
    split_by_number: bool = True
    """Never let a piece span a digit and a letter."""
    byte_fallback: bool = False
    """Spell unknown characters as bytes, which takes 256 pieces of the vocabulary."""
    max_training_sentences: PositiveInt = 1_000_000
    """Sentences, drawn evenly from the training text, that the tokenizer is trained on."""
