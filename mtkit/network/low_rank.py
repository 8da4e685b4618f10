"""Low-rank updates of linear maps: LoRA (arXiv 2106.09685)."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.network.sublayers import Dropout


class LowRankPair(nn.Module):
    """Two matrices whose product is added to a map's weight (section 4.1's A and B)."""

    # The product starts as 0: `down` is drawn as in the authors' code, `up` is 0.

    def __init__(self, num_inputs: int, num_outputs: int, rank: int) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.empty(rank, num_inputs))
        self.up = nn.Parameter(torch.zeros(num_outputs, rank))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5.0))


class AdaptedLinear(nn.Module):
    """A linear map, or several stacked ones, with low-rank updates of some of them.

    Weight and bias are the map's own, and keep their names. `rows` has the first row and the one
    after the last of each updated map. `scale` is alpha / rank. Dropout applies to the updates'
    inputs.
    """

    def __init__(
        self,
        linear: nn.Linear,
        rows: Mapping[str, tuple[int, int]],
        *,
        rank: int,
        scale: float,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias
        self.rank, self.scale = rank, scale
        self.dropout = Dropout(dropout)
        self.low_rank = nn.ModuleDict(
            {
                name: LowRankPair(linear.in_features, last - first, rank)
                for name, (first, last) in rows.items()
            }
        )
        self._rows = dict(rows)
        self._is_merged = False

    def forward(self, inputs: Float[Tensor, "*shape inputs"]) -> Float[Tensor, "*shape outputs"]:
        """Returns the maps' outputs side by side."""
        outputs = nn.functional.linear(inputs, self.weight, self.bias)
        if self._is_merged:
            return outputs
        # All updates are one product down and one up, whatever their number.
        pairs = self._list_pairs()
        down = torch.cat([pair.down for _, pair in pairs])
        hidden = nn.functional.linear(self.dropout(inputs), down) * self.scale
        blocks = (
            nn.functional.pad(pair.up, self._find_margins(index, rows))
            for index, (rows, pair) in enumerate(pairs)
        )
        return outputs + nn.functional.linear(hidden, reduce(torch.add, blocks))

    def _list_pairs(self) -> list[tuple[tuple[int, int], LowRankPair]]:
        found = []
        for name, rows in self._rows.items():
            pair = self.low_rank[name]
            assert isinstance(pair, LowRankPair)
            found.append((rows, pair))
        return found

    def _find_margins(self, index: int, rows: tuple[int, int]) -> tuple[int, int, int, int]:
        """Returns the columns and rows of zeros around a pair's `up` in that of all pairs."""
        after = len(self._rows) - 1 - index
        first, last = rows
        return index * self.rank, after * self.rank, first, self.weight.shape[0] - last

    @contextmanager
    def merged(self) -> Iterator[None]:
        """Merges the updates while the block runs, without dropout; then restores the bits."""
        kept = self.weight.detach().clone()
        with torch.no_grad():
            for (first, last), pair in self._list_pairs():
                self.weight[first:last] += find_update(pair.up, pair.down, self.scale)
        self._is_merged = True
        try:
            yield
        finally:
            self._is_merged = False
            with torch.no_grad():
                self.weight.copy_(kept)


def find_update(
    up: Float[Tensor, "outputs rank"], down: Float[Tensor, "rank inputs"], scale: float
) -> Float[Tensor, "outputs inputs"]:
    """Returns what a pair adds to a map's weight."""
    return (up @ down) * scale
