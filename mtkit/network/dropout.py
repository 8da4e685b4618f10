"""Dropout (Srivastava et al. 2014)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.network.cpu import dropout as cpu_dropout


class Dropout(nn.Module):
    """Zeroes each number with probability `rate` while training, and scales up the others."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Returns `inputs` with numbers dropped; in evaluation, `inputs` itself."""
        if not self.training or self.rate == 0.0:
            return inputs
        if inputs.device.type == "cpu":
            return cpu_dropout.drop(inputs, self.rate)
        return nn.functional.dropout(inputs, self.rate)

    def add(
        self, states: Float[Tensor, "*shape"], inputs: Float[Tensor, "*shape"]
    ) -> Float[Tensor, "*shape"]:
        """Returns `states` plus `inputs` with numbers dropped.

        Without gradients `inputs` is written into: fresh memory would have to be fetched first.
        """
        if self.training and self.rate > 0.0 and inputs.device.type == "cpu":
            return cpu_dropout.drop_and_add(states, inputs, self.rate)
        dropped: Tensor = self(inputs)
        if torch.is_grad_enabled():
            return states + dropped
        return dropped.add_(states)

    def extra_repr(self) -> str:
        """Returns the rate, for printing a model."""
        return f"rate={self.rate}"
