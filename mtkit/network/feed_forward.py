"""The position-wise feed-forward sub-layer (arXiv 1706.03762, section 3.3)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.network.dropout import Dropout
from mtkit.network.fused_linear import FusedLinear
from mtkit.recipe.model import Activation, Model


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
        inner = self.inner(inputs)
        if self.activation == "swiglu":
            gate, linear = inner.chunk(2, dim=-1)
            activated = activate(gate, "swiglu") * linear
        elif self.activation == "relu" and not torch.is_grad_enabled():
            # In place: fresh memory of that size costs more than the activation.
            activated = inner.relu_()
        else:
            activated = activate(inner, self.activation)
        mapped: Tensor = self.output(self.dropout(activated))
        return mapped


def activate(inputs: Float[Tensor, "*shape"], kind: Activation) -> Float[Tensor, "*shape"]:
    """Returns an activation's outputs; SwiGLU's is that of its gate, SiLU."""
    match kind:
        case "relu":
            return nn.functional.relu(inputs)
        case "gelu":
            return nn.functional.gelu(inputs)
        case "gelu_tanh":
            return nn.functional.gelu(inputs, approximate="tanh")
        case "silu" | "swiglu":
            return nn.functional.silu(inputs)
