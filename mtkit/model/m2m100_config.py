"""The networks of M2M100 and NLLB-200 by transformers' names."""

from typing import Literal

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
"""Index of a sentence's first sinusoid: fairseq's, one behind that of padding."""


class M2M100Config(BaseModel):
    """`M2M100Config`'s keys that mtkit reads; the defaults are transformers'."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    vocab_size: int = Field(128_112, ge=5, le=MAX_PIECES)
    max_position_embeddings: int = Field(1024, ge=1)
    encoder_layers: int = 12
    decoder_layers: int = 12
    encoder_ffn_dim: int = 4096
    decoder_ffn_dim: int = 4096
    encoder_attention_heads: int = 16
    decoder_attention_heads: int = 16
    activation_function: Literal["relu", "gelu", "gelu_new", "silu", "swish"] = "relu"
    d_model: int = 1024
    dropout: float = 0.1
    attention_dropout: float = 0.1
    activation_dropout: float = 0.0
    scale_embedding: bool = True
    tie_word_embeddings: Literal[True] = True
    pad_token_id: Literal[1] = 1
    eos_token_id: int = 2
    decoder_start_token_id: int = 2

    def to_model(self) -> Model:
        """Returns the network's section of a recipe.

        Raises:
            ValueError: Encoder and decoder differ in what is one number here.
        """
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
            norm="pre",
            activation=ACTIVATIONS[self.activation_function],
            sinusoids="tensor2tensor",
            first_position=FIRST_POSITION,
            scale_embeddings=self.scale_embedding,
            # It hides `<s>`, the decoder's first input, whose row is that of `</s>`.
            output_bias=True,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            activation_dropout=self.activation_dropout,
        )
