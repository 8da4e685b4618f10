"""The position of a token, as a vector (arXiv 1706.03762, section 3.5)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.recipe.model import Sinusoids

_INITIAL_POSITIONS = 256


def sinusoids(
    num_positions: int, d_model: int, kind: Sinusoids = "interleaved"
) -> Float[Tensor, "num_positions d_model"]:
    """Returns sines and cosines of p / 10000^(2i/d_model), in fp32.

    Args:
        num_positions: Positions p, from 0.
        d_model: Width of a vector; i counts its pairs of a sine and a cosine.
        kind: `interleaved` has sines at even indices and cosines at odd ones, as the paper;
            `halves` has all sines first, as Marian; `tensor2tensor` too, of
            p / 10000^(i/(d_model/2 - 1)), as fairseq and M2M100.
    """
    pairs = torch.arange(d_model // 2, dtype=torch.float64)
    slowest = max(d_model // 2 - 1, 1) if kind == "tensor2tensor" else d_model / 2
    frequencies = torch.exp(-math.log(10_000.0) * pairs / slowest)
    angles = torch.arange(num_positions, dtype=torch.float64)[:, None] * frequencies
    waves = angles.sin(), angles.cos()
    if kind == "interleaved":
        return torch.stack(waves, dim=-1).flatten(1).float()
    return torch.cat(waves, dim=1).float()


class SinusoidalPositions(nn.Module):
    """Fixed waves; the table grows with the longest text seen, so no length is too long."""

    table: Tensor

    def __init__(
        self, d_model: int, *, kind: Sinusoids = "interleaved", first_position: int = 0
    ) -> None:
        super().__init__()
        self.d_model, self.kind = d_model, kind
        self.first_position = first_position
        self.register_buffer(
            "table", sinusoids(_INITIAL_POSITIONS, d_model, kind), persistent=False
        )

    def forward(self, first: int, length: int) -> Float[Tensor, "length d_model"]:
        """Returns the vectors of `length` positions from a sentence's position `first` on."""
        first += self.first_position
        end = first + length
        if end > self.table.shape[0]:
            grown = sinusoids(max(end, 2 * self.table.shape[0]), self.d_model, self.kind)
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
                f"position {first + length - 1} requested, but the model learned only "
                f"{self.weight.shape[0]} (model.max_positions)"
            )
        return self.weight[first : first + length]
