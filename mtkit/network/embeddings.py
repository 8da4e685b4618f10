"""Tokens to vectors (arXiv 1706.03762, section 3.4)."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.network.cpu.prepacked import PrepackedMatrix
from mtkit.network.dropout import Dropout
from mtkit.network.grids import Grids
from mtkit.network.look_up import look_up
from mtkit.network.packing import Packing
from mtkit.network.positions import LearnedPositions, SinusoidalPositions


class TokenEmbedding(nn.Module):
    """A matrix of token vectors; times sqrt(d_model) going in, plain as an output projection."""

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        self.scale = math.sqrt(d_model)
        self._fixed: PrepackedMatrix | None = None

    def forward(self, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length d_model"]:
        """Returns the scaled vector of each token, in fp32 at least."""
        return look_up(self.weight, tokens) * self.scale

    def project(self, states: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape vocab"]:
        """Returns each state's product with every token's vector."""
        if self._fixed is not None:
            return self._fixed.multiply(states)
        return nn.functional.linear(states, self.weight)

    def fix(self) -> None:
        """Keeps a copy of the matrix for `project`, which it is from now on."""
        self._fixed = PrepackedMatrix(self.weight)


class InputEmbedding(nn.Module):
    """Token vectors plus positions, with dropout on the sum (section 5.4)."""

    def __init__(
        self,
        tokens: TokenEmbedding,
        positions: SinusoidalPositions | LearnedPositions,
        *,
        dropout: float,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.dropout = Dropout(dropout)

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        first_position: int = 0,
        *,
        at: Grids | Packing | None = None,
    ) -> Float[Tensor, "batch length d_model"]:
        """Returns the vectors of tokens that stand from `first_position` on, or where `at` says."""
        positions = (
            self.positions(first_position, tokens.shape[1])
            if at is None
            else look_up(self.positions(0, at.longest), at.places)
        )
        # Both are in fp32; what goes on is in the precision of the weights.
        embedded = (self.tokens(tokens) + positions).to(self.tokens.weight.dtype)
        dropped: Tensor = self.dropout(embedded)
        return dropped
