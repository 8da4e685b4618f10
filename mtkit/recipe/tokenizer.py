"""The `tokenizer` section: how text becomes subword tokens."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.section import Count, RecipePath, Section, refuse_special

Symbol = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(refuse_special)]


class Pretrained(Section):
    """SentencePiece models to use instead of training one; keys on training then have no effect."""

    source: RecipePath
    """Model for the source, or for both sides if `joint` is true; relative to `data.data_root`."""
    target: RecipePath | None = None
    """Model for the target, if `joint` is false; trees need none."""


class SubwordSampling(Section):
    """A different segmentation of each training sentence in each epoch.

    Subword regularisation (arXiv 1804.10959) with a unigram model, BPE-dropout (arXiv 1910.13267)
    with a BPE model: a pure function of seed, epoch and sentence. Validation and translation don't
    sample.
    """

    alpha: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.1
    """BPE: the probability that a merge is skipped. Unigram: the exponent of a segmentation's
    probability, sampled among all of them; 0.1 doubles the tokens, 0.5 adds 6 %."""
    max_growth: Annotated[float, Field(ge=1.0, le=8.0)] = 2.0
    """A segmentation with more than this many times the best one's tokens, or with more than
    `data.cleaning.max_tokens`, is replaced by the best. Updates are planned with the best ones;
    `training.micro_batch_tokens` must fit the longest that this allows."""


class Tokenizer(Section):
    """A SentencePiece model (arXiv 1808.06226), trained by `mtkit prepare`."""

    kind: Literal["bpe", "unigram"] = "bpe"
    """Subword algorithm: byte-pair encoding (arXiv 1508.07909) or unigram (arXiv 1804.10959)."""
    vocab_size: Annotated[int, Field(ge=16, le=1_000_000)] = 8_000
    """Number of pieces, special ones included; per side if `joint` is false."""
    joint: bool = True
    """One vocabulary for both languages; required by three-way tied embeddings. A language model
    has one in any case."""
    normalization: Literal["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"] = "nmt_nfkc"
    """SentencePiece's normalisation rule, for source and target. Translations can't contain what it
    changes in targets: the NFKC rules turn `，` into `,` and `…` into `...`. `identity` leaves text
    as it is, which tokenised text and Chinese and Japanese targets need to survive a round trip."""
    punctuation: Literal["as-is", "moses"] = "as-is"
    """`moses`: sacremoses normalises quotation marks, dashes and spaces before all else, in
    translation too. It needs the extra `punctuation`, and loses typography that a
    translation may want, so it is off by default."""
    character_coverage: Annotated[float, Field(ge=0.98, le=1.0)] = 1.0
    """Share of the characters in the sample that the vocabulary must cover; 0.9995 suits Chinese
    and Japanese."""
    split_by_unicode_script: bool = True
    """Never let a piece span two scripts."""
    split_by_number: bool = True
    """Never let a piece span a digit and a letter."""
    byte_fallback: bool = False
    """Spell unknown characters as bytes, which uses 256 pieces of the vocabulary."""
    user_symbols: tuple[Symbol, ...] = ()
    """Strings that are always one piece, such as placeholders; tags of corpora are added
    automatically, and so is `<mask>` of a masked language model."""
    max_training_sentences: Count = 1_000_000
    """Number of sentences, sampled evenly from the cleaned text, to train the tokenizer on. A
    million need half a gigabyte of memory with BPE, and one and a half with unigram."""
    pretrained: Annotated[Pretrained | None, Invalidates.DATA] = None
    """SentencePiece models to use instead of training one."""
    sampling: SubwordSampling | None = None
    """A different segmentation in each epoch."""

    @model_validator(mode="after")
    def _models_fit(self) -> "Tokenizer":
        if self.joint and self.pretrained is not None and self.pretrained.target is not None:
            raise ValueError(
                "pretrained.target is given, but with joint = true one model serves both sides: "
                "remove it, or set joint = false"
            )
        return self
