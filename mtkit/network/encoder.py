"""The encoder stack (arXiv 1706.03762, section 3.1)."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from mtkit.network.attention import SelfAttention
from mtkit.network.dropout import Dropout
from mtkit.network.feed_forward import FeedForward
from mtkit.network.grids import Grids
from mtkit.network.layer_norm import LayerNorm
from mtkit.network.packing import Packing
from mtkit.recipe.model import Model


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each with dropout, a residual sum and a norm."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.norm_first = model.norm == "pre"
        self.attention = SelfAttention(
            model.d_model,
            num_heads=model.num_heads,
            d_key=model.d_key,
            d_value=model.d_value,
            dropout=model.attention_dropout,
            window=model.attention_window,
        )
        self.attention_norm = LayerNorm(model.d_model)
        self.feed_forward = FeedForward(
            model.d_model, model.d_ff, activation=model.activation, dropout=model.activation_dropout
        )
        self.feed_forward_norm = LayerNorm(model.d_model)
        self.dropout = Dropout(model.dropout)

    def forward(
        self,
        states: Float[Tensor, "batch src_len d_model"],
        source_is_token: Bool[Tensor, "batch src_len"] | Grids | Packing,
    ) -> Float[Tensor, "batch src_len d_model"]:
        """Returns the layer's output."""
        if self.norm_first:
            normed = self.attention_norm(states)
            states = self.dropout.add(states, self.attention(normed, is_token=source_is_token))
            normed = self.feed_forward_norm(states)
            summed: Tensor = self.dropout.add(states, self.feed_forward(normed))
            return summed
        states = self.dropout.add(states, self.attention(states, is_token=source_is_token))
        states = self.attention_norm(states)
        states = self.dropout.add(states, self.feed_forward(states))
        normed_sum: Tensor = self.feed_forward_norm(states)
        return normed_sum


class Encoder(nn.Module):
    """All encoder layers; pre-norm adds a norm after the last."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(model) for _ in range(model.num_encoder_layers))
        self.final_norm = LayerNorm(model.d_model) if model.norm == "pre" else nn.Identity()

    def forward(
        self,
        states: Float[Tensor, "batch src_len d_model"],
        source_is_token: Bool[Tensor, "batch src_len"] | Grids | Packing,
    ) -> Float[Tensor, "batch src_len d_model"]:
        """Returns the source's vectors, each drawn from the whole sentence."""
        for layer in self.layers:
            states = layer(states, source_is_token)
        normed: Tensor = self.final_norm(states)
        return normed
