"""Sub-layers except attention: feed-forward, linear maps, normalisation, dropout."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.network.cpu import dropout as cpu_dropout
from mtkit.network.layout import States
from mtkit.recipe.model import Activation, Model


class FeedForward(nn.Module):
    """Two linear maps and an activation (arXiv 1706.03762, section 3.3), or SwiGLU (2002.05202)."""

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

    def forward(self, inputs: States) -> States:
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


class FusedLinear(nn.Linear):
    """Several linear maps of the same inputs in one product; `keys` is attention's key map."""

    # The bias of the key map gets no gradient: a softmax over keys cancels it. A backward pass
    # would yield only rounding errors, and Adam would make full steps of them: another split into
    # micro-batches would give another model.

    def __init__(
        self, num_inputs: int, widths: tuple[int, ...], *, keys: int | None = None
    ) -> None:
        super().__init__(num_inputs, sum(widths))
        self.widths = widths
        self._keys = keys
        self._bias_learns: Tensor | None = None

    def forward(self, inputs: Float[Tensor, "*shape inputs"]) -> Float[Tensor, "*shape outputs"]:
        """Returns the maps' outputs side by side."""
        if self._keys is None or not torch.is_grad_enabled():
            return super().forward(inputs)
        if self._bias_learns is None or self._bias_learns.device != inputs.device:
            self._bias_learns = torch.ones_like(self.bias, dtype=torch.bool)
            torch.split(self._bias_learns, list(self.widths))[self._keys].fill_(False)
        bias: Tensor = _MaskedGradient.apply(self.bias, self._bias_learns)  # type: ignore[no-untyped-call]
        return nn.functional.linear(inputs, self.weight, bias)


class _MaskedGradient(torch.autograd.Function):
    """A tensor whose gradient is 0 where it doesn't learn: one kernel, in the backward pass."""

    @staticmethod
    def forward(ctx: Any, whole: Tensor, learns: Tensor) -> Tensor:
        ctx.save_for_backward(learns)
        return whole.view_as(whole)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (learns,) = ctx.saved_tensors
        return torch.where(learns, gradient, 0.0), None


class LayerNorm(nn.LayerNorm):
    """Layer normalisation (arXiv 1607.06450) with exact gradients on a CPU."""

    # PyTorch's CPU kernel sums the gradients of weight and bias over all tokens in 16 bits: after
    # a few thousand they are off by a tenth, and by more if most have one sign.

    def __init__(self, config: Model) -> None:
        super().__init__(config.d_model, eps=config.norm_epsilon)

    def forward(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Returns each vector with mean 0 and variance 1, times weight plus bias."""
        if inputs.device.type != "cpu" or inputs.dtype.itemsize != 2:
            return super().forward(inputs)
        weight, bias = self.weight.float(), self.bias.float()
        normed = nn.functional.layer_norm(inputs.float(), weight.shape, weight, bias, self.eps)
        return normed.to(inputs.dtype)


class Dropout(nn.Module):
    """Zeroes numbers at a rate in training and scales up the others (Srivastava et al. 2014)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Returns `inputs` with dropout; in evaluation, `inputs` itself."""
        if not self.training or self.rate == 0.0:
            return inputs
        if inputs.device.type == "cpu":
            return cpu_dropout.drop(inputs, self.rate)
        return nn.functional.dropout(inputs, self.rate)

    def add(
        self, states: Float[Tensor, "*shape"], inputs: Float[Tensor, "*shape"]
    ) -> Float[Tensor, "*shape"]:
        """Returns `states` plus `inputs` with dropout; without gradients it overwrites `inputs`."""
        # Overwriting saves fetching fresh memory.
        if self.training and self.rate > 0.0 and inputs.device.type == "cpu":
            return cpu_dropout.drop_and_add(states, inputs, self.rate)
        dropped: Tensor = self(inputs)
        if torch.is_grad_enabled():
            return states + dropped
        return dropped.add_(states)

    def extra_repr(self) -> str:
        """Returns the rate, for printing a model."""
        return f"rate={self.rate}"
