"""Where a token stands, as a vector (arXiv 1706.03762, section 3.5)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

_INITIAL_POSITIONS = 256


def sinusoids(num_positions: int, d_model: int) -> Float[Tensor, "num_positions d_model"]:
    """Returns sin(p / 10000^(2i/d_model)) at even places 2i and the cosine at odd ones, in fp32."""
    places = torch.arange(0, d_model, 2, dtype=torch.float64)
    frequencies = torch.exp(-math.log(10_000.0) * places / d_model)
    angles = torch.arange(num_positions, dtype=torch.float64)[:, None] * frequencies
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1).float()


class SinusoidalPositions(nn.Module):
    """Fixed waves; the table grows with the longest text seen, so no length is too long."""

    table: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.register_buffer("table", sinusoids(_INITIAL_POSITIONS, d_model), persistent=False)

    def forward(self, first: int, length: int) -> Float[Tensor, "length d_model"]:
        """Returns the vectors of `length` positions from `first` on."""
        end = first + length
        if end > self.table.shape[0]:
            grown = sinusoids(max(end, 2 * self.table.shape[0]), self.d_model)
            self.table = grown.to(self.table)
        return self.table[first:end]


class LearnedPositions(nn.Module):
    """A trained vector per position."""

    def __init__(self, num_positions: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_positions, d_model))

    def forward(self, first: int, length: int) -> Float[Tensor, "length d_model"]:
        """Returns the vectors of `length` positions from `first` on.

        Raises:
            ValueError: They reach past the last trained position.
        """
        if first + length > self.weight.shape[0]:
            raise ValueError(
                f"position {first + length - 1} wanted, but the model learned only "
                f"{self.weight.shape[0]} (model.max_positions)"
            )
        return self.weight[first : first + length]
