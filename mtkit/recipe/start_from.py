"""The `training.start_from` section: the models that training starts from."""

from pathlib import Path
from typing import Literal, get_args

from pydantic import model_validator

from mtkit.recipe.section import RecipePath, Section

StartKey = Literal["model", "encoder", "decoder"]
"""Keys of `[training.start_from]` that name model folders."""


class StartFrom(Section):
    """Fine-tuning: the model whose weights training starts from, or the models of its parts.

    Give `model`, or `encoder` or `decoder` or both. `mtkit prepare` reuses the model's vocabulary
    unless `vocabulary` says otherwise. With fewer `model.num_encoder_layers` or
    `num_decoder_layers` than the model has, training starts from some of its layers, spread from
    the first to the last ("shrink and fine-tune", arXiv 2010.13002); not with LoRA.
    """

    model: RecipePath | None = None
    """A model folder, such as another run's `model/`; relative to `data.data_root`, with `--set`
    too."""
    encoder: RecipePath | None = None
    """The folder of a masked language model, a denoising model or a translator: the encoder, the
    source embeddings and positions start from its weights, all else from random ones."""
    decoder: RecipePath | None = None
    """The folder of a causal language model, a denoising model or a translator: the decoder, the
    target embeddings and positions and the output start from its weights. A language model has no
    attention to a source: that part starts from random weights."""
    vocabulary: Literal["keep", "extend", "new"] = "keep"
    """`keep`: reuse the model's vocabulary and its treatment of punctuation, with the recipe's tags
    and `tokenizer.user_symbols` added at the end; keys on the tokenizer's training have no effect.
    `extend`: like `keep`, but also appends the pieces that the model's vocabulary lacks, of one
    with `tokenizer.vocab_size` pieces that is trained on the recipe's text; each starts
    from the mean of the vectors of the pieces that spell it, and a tag or a language of NLLB's kind
    from the mean of the others' vectors.
    `new`: a new vocabulary as the recipe says; embeddings of pieces that the model knows are
    copied, the others start from random vectors."""

    @model_validator(mode="after")
    def _names_a_model_or_parts(self) -> "StartFrom":
        has_parts = self.encoder is not None or self.decoder is not None
        if (self.model is not None) == has_parts:
            raise ValueError("give either model, or encoder or decoder or both")
        return self

    @property
    def folders(self) -> dict[StartKey, Path]:
        """The model folders that are named, by key; the first one's vocabulary is kept."""
        named = {key: getattr(self, key) for key in get_args(StartKey)}
        return {key: path for key, path in named.items() if path is not None}
