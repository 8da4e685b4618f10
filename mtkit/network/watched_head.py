"""A head of the decoder's attention to the source whose queries and keys a forward pass keeps."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mtkit.network.layouts import Heads, Layout


@dataclass
class WatchedHead:
    """A head, and its layer's queries and keys in the last pass; all attention stays fused.

    Attributes:
        layer: The decoder's layer, from 1.
        head: The head of it, from 1.
    """

    layer: int
    head: int
    _queries: Heads = ()
    _keys: Heads = ()

    def keep(self, queries: Heads, keys: Heads) -> None:
        """Keeps a pass's queries and keys, by heads."""
        self._queries, self._keys = queries, keys

    def find_log_weights(
        self, layout: Layout, memory_layout: Layout
    ) -> Float[Tensor, " cells"]:
        """Returns the logarithms of the head's weights in the last pass, and forgets the pass.

        They stand by grid (`Layout.grid_shapes`), sentence, target position and source position.

        Args:
            layout: The targets' layout in that pass.
            memory_layout: The sources'.
        """
        queries, keys = self._queries, self._keys
        assert queries, "a pass"
        self._queries = self._keys = ()
        grids = layout.find_log_weights(queries, keys, memory_layout, self.head - 1)
        return torch.cat([grid.flatten() for grid in grids])
