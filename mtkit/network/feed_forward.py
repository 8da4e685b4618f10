"""The position-wise feed-forward sub-layer (arXiv 1706.03762, section 3.3)."""

from jaxtyping import Float
from torch import Tensor, nn

from mtkit.network.dropout import Dropout
from mtkit.network.fused_linear import FusedLinear
from mtkit.recipe.model import Model


class FeedForward(nn.Module):
    """Two linear maps with an activation between; `swiglu` is a gate (arXiv 2002.05202)."""

    def __init__(self, config: Model) -> None:
        super().__init__()
        self.activation = config.activation
        self.inner = (
            FusedLinear(config.d_model, (config.d_ff, config.d_ff))
            if config.activation == "swiglu"
            else nn.Linear(config.d_model, config.d_ff)
        )
        self.output = nn.Linear(config.d_ff, config.d_model)
        self.dropout = Dropout(config.activation_dropout)

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
            case "gelu_tanh":
                return nn.functional.gelu(inner, approximate="tanh")
            case "silu":
                return nn.functional.silu(inner)
            case "swiglu":
                gate, linear = inner.chunk(2, dim=-1)
                return nn.functional.silu(gate) * linear
