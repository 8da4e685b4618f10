"""The networks of public translators, by the keys of transformers' configs."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mtkit.recipe.model import Activation, Model
from mtkit.text.vocabulary import MAX_PIECES

ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
"""`model.activation` by `activation_function`."""
FIRST_POSITION = 2
"""Index of a sentence's first sinusoid in fairseq: the one after padding's."""


class TranslatorConfig(BaseModel):
    """Keys that the configs of Marian and M2M100 share, with the defaults common to both."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    max_position_embeddings: int = Field(1024, ge=1)
    encoder_layers: int = 12
    decoder_layers: int = 12
    encoder_ffn_dim: int = 4096
    decoder_ffn_dim: int = 4096
    encoder_attention_heads: int = 16
    decoder_attention_heads: int = 16
    d_model: int = 1024
    dropout: float = 0.1
    activation_dropout: float = 0.0
    activation_function: Literal["relu", "gelu", "gelu_new", "silu", "swish"]
    attention_dropout: float
    scale_embedding: bool
    vocab_size: int = Field(ge=4, le=MAX_PIECES)

    def to_model(self) -> Model:
        """Returns the recipe's section; raises a ValueError if encoder and decoder don't match."""
        for name in ("ffn_dim", "attention_heads"):
            pair = getattr(self, f"encoder_{name}"), getattr(self, f"decoder_{name}")
            if pair[0] != pair[1]:
                raise ValueError(
                    f"encoder_{name} = {pair[0]} and decoder_{name} = {pair[1]}: mtkit has one "
                    "number for both"
                )
        return Model(
            num_encoder_layers=self.encoder_layers,
            num_decoder_layers=self.decoder_layers,
            d_model=self.d_model,
            d_ff=self.encoder_ffn_dim,
            num_heads=self.encoder_attention_heads,
            activation=ACTIVATIONS[self.activation_function],
            scale_embeddings=self.scale_embedding,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            activation_dropout=self.activation_dropout,
            **self._describe_kind(),
        )

    def _describe_kind(self) -> dict[str, Any]:
        """Returns the keys of the recipe's section that depend on the kind of translator."""
        raise NotImplementedError


class M2M100Config(TranslatorConfig):
    """The keys of `M2M100Config` that mtkit reads; the defaults are transformers'."""

    vocab_size: int = Field(128_112, ge=5, le=MAX_PIECES)
    activation_function: Literal["relu", "gelu", "gelu_new", "silu", "swish"] = "relu"
    attention_dropout: float = 0.1
    scale_embedding: bool = True
    tie_word_embeddings: Literal[True] = True
    pad_token_id: Literal[1] = 1
    eos_token_id: int = 2
    decoder_start_token_id: int = 2

    def _describe_kind(self) -> dict[str, Any]:
        return {
            "norm": "pre",
            "sinusoids": "tensor2tensor",
            "first_position": FIRST_POSITION,
            # It hides `<s>`, the decoder's first input, whose row is that of `</s>`.
            "output_bias": True,
        }


class BiasedConfig(TranslatorConfig):
    """Keys of Marian and Pegasus: networks with sinusoids and an output bias."""

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
    """The keys of `MarianConfig`; the defaults are transformers'."""

    vocab_size: int = Field(58_101, ge=4, le=MAX_PIECES)
    pad_token_id: int = 58_100
    eos_token_id: int = 0
    normalize_before: Literal[False] = False
    add_final_layer_norm: Literal[False] = False


class PegasusConfig(BiasedConfig):
    """The keys of `PegasusConfig`; the defaults are transformers'."""

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
