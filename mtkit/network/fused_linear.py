"""Several linear maps of the same inputs in one product."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class FusedLinear(nn.Linear):
    """Linear maps whose weights and biases lie one below the other.

    Args:
        num_inputs: Width of the inputs.
        widths: Width of each map's outputs.
        keys: Index of the map that makes attention's keys. Its bias has a gradient of 0, as it
            should: a softmax over keys cancels what is added to all of them. What a backward pass
            finds is rounding alone, and Adam would make full steps of that: another cut into
            micro-batches, another model.
    """

    def __init__(
        self, num_inputs: int, widths: tuple[int, ...], *, keys: int | None = None
    ) -> None:
        super().__init__(num_inputs, sum(widths))
        self.widths = widths
        self._keys = keys

    def forward(self, inputs: Float[Tensor, "*shape inputs"]) -> Float[Tensor, "*shape outputs"]:
        """Returns the maps' outputs side by side."""
        if self._keys is None or not torch.is_grad_enabled():
            return super().forward(inputs)
        biases = list(torch.split(self.bias, list(self.widths)))
        biases[self._keys] = biases[self._keys].detach()
        return nn.functional.linear(inputs, self.weight, torch.cat(biases))
