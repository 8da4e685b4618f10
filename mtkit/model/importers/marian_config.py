"""The networks of Marian's translators, and of Pegasus, by transformers' names."""

from typing import Any, Literal

from pydantic import Field

from mtkit.model.translator_config import TranslatorConfig
from mtkit.text.vocabulary import MAX_PIECES


class BiasedConfig(TranslatorConfig):
    """Keys that both have: networks with sinusoids, and a bias of each piece's logit."""

    decoder_vocab_size: int | None = Field(None, ge=4, le=MAX_PIECES)
    activation_function: Literal["relu", "gelu", "gelu_new", "silu", "swish"] = "gelu"
    attention_dropout: float = 0.0
    scale_embedding: bool = False
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: int
    eos_token_id: int
    decoder_start_token_id: int | None = None
    normalize_embedding: Literal[False] = False
    add_bias_logits: Literal[False] = False
    static_position_embeddings: Literal[True] = True

    @property
    def target_vocab_size(self) -> int:
        """Rows of the decoder's embedding."""
        if self.share_encoder_decoder_embeddings or self.decoder_vocab_size is None:
            return self.vocab_size
        return self.decoder_vocab_size

    @property
    def start(self) -> int:
        """The decoder's first input."""
        return (
            self.pad_token_id
            if self.decoder_start_token_id is None
            else self.decoder_start_token_id
        )

    def _describe_kind(self) -> dict[str, Any]:
        if not self.tie_word_embeddings:
            tied = "none"
        else:
            tied = "three-way" if self.share_encoder_decoder_embeddings else "decoder"
        return {"sinusoids": "halves", "tied_embeddings": tied, "output_bias": True}


class MarianConfig(BiasedConfig):
    """`MarianConfig`'s keys; the defaults are transformers'."""

    vocab_size: int = Field(58_101, ge=4, le=MAX_PIECES)
    pad_token_id: int = 58_100
    eos_token_id: int = 0
    normalize_before: Literal[False] = False
    add_final_layer_norm: Literal[False] = False


class PegasusConfig(BiasedConfig):
    """`PegasusConfig`'s keys; the defaults are transformers'."""

    vocab_size: int = Field(50_265, ge=4, le=MAX_PIECES)
    pad_token_id: int = 0
    eos_token_id: int = 1
    decoder_start_token_id: int | None = 0
    normalize_before: Literal[True] = True
    add_final_layer_norm: Literal[True] = True
    share_encoder_decoder_embeddings: Literal[True] = True
    tie_word_embeddings: Literal[True] = True

    def _describe_kind(self) -> dict[str, Any]:
        return {**super()._describe_kind(), "norm": "pre"}
