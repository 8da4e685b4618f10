"""Rotary positions (RoPE, arXiv 2104.09864): queries and keys turned by an angle of their position.

The product of a turned query and a turned key depends on how far apart they are, and on nothing
else of where they stand.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

_INITIAL_POSITIONS = 256


def rotations(num_positions: int, d_key: int) -> Float[Tensor, "num_positions pairs 2"]:
    """Returns cosine and sine of p / 10000^(2i/d_key), in fp32 (equation 15).

    Args:
        num_positions: Positions p, from 0.
        d_key: Width of a query or key; i counts its pairs, d_key / 2 of them.
    """
    pairs = torch.arange(d_key // 2, dtype=torch.float64)
    frequencies = torch.exp(-math.log(10_000.0) * 2.0 / d_key * pairs)
    angles = torch.arange(num_positions, dtype=torch.float64)[:, None] * frequencies
    return torch.stack((angles.cos(), angles.sin()), dim=-1).float()


class RotaryPositions(nn.Module):
    """Turns pairs of dimensions 2i and 2i + 1 by p / 10000^(2i/d_key), for a token at position p.

    The table grows with the longest text seen, so no length is too long.

    Args:
        d_key: Width of a query or key, an even number.
        num_heads: Heads of queries and keys together.
    """

    table: Tensor

    def __init__(self, d_key: int, num_heads: int) -> None:
        super().__init__()
        self.d_key, self.num_heads = d_key, num_heads
        self.register_buffer("table", rotations(_INITIAL_POSITIONS, d_key), persistent=False)

    def forward(
        self,
        projected: Float[Tensor, "batch length width"],
        positions: Int[Tensor, "#batch #length"],
        *,
        end: int,
    ) -> Float[Tensor, "batch length width"]:
        """Returns a projection whose first heads, those of queries and keys, are turned.

        Angles and products are in fp32 at least.

        Args:
            projected: Queries, keys and whatever else, side by side.
            positions: Each token's position.
            end: More than the largest of them.
        """
        if end > self.table.shape[0]:
            grown = rotations(max(end, 2 * self.table.shape[0]), self.d_key)
            self.table = grown.to(self.table)
        width = self.num_heads * self.d_key
        computed_type = torch.promote_types(projected.dtype, torch.float32)
        pairs = projected[..., :width].to(computed_type)
        pairs = pairs.reshape(*pairs.shape[:2], self.num_heads, -1, 2)
        # A turn by an angle is a product with a complex number.
        turns = torch.view_as_complex(self.table[positions].to(computed_type)).unsqueeze(2)
        turned = torch.view_as_real(torch.view_as_complex(pairs) * turns).flatten(2)
        return torch.cat((turned.to(projected.dtype), projected[..., width:]), dim=-1)
