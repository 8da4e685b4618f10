"""The networks of public translators by the keys of transformers' configs."""

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


class TranslatorConfig(BaseModel):
    """Keys that the configs of Marian and M2M100 share; the defaults are those that both have."""

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
            activation=ACTIVATIONS[self.activation_function],
            scale_embeddings=self.scale_embedding,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            activation_dropout=self.activation_dropout,
            **self._describe_kind(),
        )

    def _describe_kind(self) -> dict[str, Any]:
        """Returns keys of the recipe's section that the kind of translator decides."""
        raise NotImplementedError
