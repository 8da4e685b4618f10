"""A head of the decoder's attention to the source whose queries and keys a forward pass keeps."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mtkit.network.layout import Heads, Layout
from mtkit.network.layouts import PaddedLayout


@dataclass
class WatchedHead:
    """A head, and its layer's queries and keys in the last pass; all attention stays fused.

    Attributes:
        layer: The decoder's layer, from 1.
        head: The head of it, from 1; None for the mean of all.
    """

    layer: int
    head: int | None
    _queries: Heads = ()
    _keys: Heads = ()

    def keep(self, queries: Heads, keys: Heads) -> None:
        """Keeps a pass's queries and keys, by heads."""
        self._queries, self._keys = queries, keys

    def find_log_weights(self, layout: Layout, memory_layout: Layout) -> Float[Tensor, " cells"]:
        """Returns the logarithms of the head's weights in the last pass, and forgets the pass.

        They stand by grid (`Layout.grid_shapes`), sentence, target position and source position.

        Args:
            layout: The targets' layout in that pass.
            memory_layout: The sources'.
        """
        assert self.head is not None, "one head"
        queries, keys = self._take()
        grids = layout.find_log_weights(queries, keys, memory_layout, self.head - 1)
        return torch.cat([grid.flatten() for grid in grids])

    def find_weights(
        self, layout: PaddedLayout, memory_layout: PaddedLayout
    ) -> Float[Tensor, "batch queries memory"]:
        """Returns the weights of the last pass, of padded sentences, and forgets the pass."""
        queries, keys = self._take()
        heads = range(queries[0].shape[1]) if self.head is None else (self.head - 1,)
        found = [
            layout.find_log_weights(queries, keys, memory_layout, head)[0].exp() for head in heads
        ]
        return torch.stack(found).mean(dim=0)

    def _take(self) -> tuple[Heads, Heads]:
        queries, keys = self._queries, self._keys
        assert queries, "a pass"
        self._queries = self._keys = ()
        return queries, keys
