"""The position-wise feed-forward sub-layer (arXiv 1706.03762, section 3.3)."""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from mtkit.network.dropout import Dropout


class FeedForward(nn.Module):
    """Two linear maps with a non-linearity between; `swiglu` gates it (arXiv 2002.05202)."""

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: Literal["relu", "gelu", "swiglu"],
        dropout: float,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.inner = nn.Linear(d_model, 2 * d_ff if activation == "swiglu" else d_ff)
        self.output = nn.Linear(d_ff, d_model)
        self.dropout = Dropout(dropout)

    def forward(
        self, inputs: Float[Tensor, "batch length d_model"]
    ) -> Float[Tensor, "batch length d_model"]:
        """Returns each position's vector, mapped on its own."""
        mapped: Tensor = self.output(self.dropout(self._activate(self.inner(inputs))))
        return mapped

    def _activate(self, inner: Tensor) -> Tensor:
        match self.activation:
            case "relu":
                return nn.functional.relu(inner)
            case "gelu":
                return nn.functional.gelu(inner)
            case "swiglu":
                gate, linear = inner.chunk(2, dim=-1)
                return nn.functional.silu(gate) * linear
