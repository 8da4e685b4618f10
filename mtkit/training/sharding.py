"""Adam's moments and updates, sharded over the ranks: ZeRO stage 1 (arXiv 1910.02054, section 5.1).

The weights and their gradients stay whole on each rank: passes need no other rank.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from mtkit.training.distributed import ProcessGroup

MOMENTS = ("exp_avg", "exp_avg_sq")
"""Names of Adam's moments in torch's optimizer and in checkpoints."""
_ALIGNMENT = 64
"""Each weight begins at a multiple of this, in numbers: kernels read aligned vectors."""

WholeMoments = dict[str, Sequence[Tensor | None]]
"""Each moment of all weights, by its name; None is zero."""


class Shards:
    """The weights that learn and their gradients: views of two flat tensors, in a part per rank.

    Each rank updates its part. Between updates the gradients' memory serves to move moments.

    Attributes:
        parts: What this rank updates of each weight, one-dimensional and possibly empty, with its
            gradient.
        whole: Moments of all ranks in the first rank's memory: those gathered and not yet saved,
            or restored and not yet scattered.
    """

    def __init__(self, weights: Sequence[nn.Parameter], processes: ProcessGroup) -> None:
        self._learning, self._processes = weights, processes
        starts = [0, *accumulate(_round_up(weight.numel(), _ALIGNMENT) for weight in weights)]
        self._weights = weights[0].new_zeros(_round_up(starts[-1], _ALIGNMENT * processes.count))
        self._gradients = torch.zeros_like(self._weights)
        size = len(self._weights) // processes.count
        begin = processes.rank * size
        self.parts: list[Tensor] = []
        self.whole: WholeMoments = {}
        self._gradient_views: list[Tensor] = []
        self._gradient_parts: list[Tensor] = []
        for weight, start in zip(weights, starts, strict=False):
            end = start + weight.numel()
            weight.data = self._weights[start:end].view_as(weight).copy_(weight.detach())
            self._gradient_views.append(self._gradients[start:end].view_as(weight))
            first, last = (min(max(index, begin), begin + size) for index in (start, end))
            self.parts.append(self._weights[first:last])
            self._gradient_parts.append(self._gradients[first:last])
        self.restart_gradients()

    def restart_gradients(self) -> None:
        """Sets the gradients of all weights, and of the parts, to zeros in their memory."""
        self._gradients.zero_()
        for weight, view in zip(self._learning, self._gradient_views, strict=True):
            weight.grad = view
        for part, gradient in zip(self.parts, self._gradient_parts, strict=True):
            part.grad = gradient

    def sum_update(self, values: Tensor, factor: float) -> Tensor:
        """Sets the parts' gradients, and `values`, to the sums over all ranks; a GPU queues it.

        On entry the gradients are scaled by `factor`.

        Returns:
            The Euclidean norm of the whole gradient.
        """
        own = self._processes.reduce_scatter(self._gradients)
        if factor != 1.0:
            own.div_(factor)
        squared = nn.utils.get_total_norm([own]).to(values) ** 2
        summed = self._processes.sum(torch.cat((values, squared[None])), synchronizes=False)
        values.copy_(summed[:-1])
        return summed[-1].sqrt().to(own)

    def gather_weights(self) -> None:
        """Copies each rank's part of the weights to all ranks; a GPU queues it."""
        self._processes.all_gather(self._weights, synchronizes=False)

    def gather_moments(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        """Sets `whole` from the optimizer's state of each part; every rank must call it."""
        for moment in MOMENTS:
            for part, state in zip(self._gradient_parts, states, strict=True):
                part.copy_(state[moment])
            self._processes.all_gather(self._gradients)
            if self._processes.is_first:
                self.whole[moment] = [view.to("cpu", copy=True) for view in self._gradient_views]

    def scatter_moments(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        """Sets the optimizer's state of each part from `whole`; every rank must call it."""
        for moment in MOMENTS:
            self._gradients.zero_()
            for view, saved in zip(self._gradient_views, self.whole.pop(moment, ()), strict=False):
                if saved is not None:
                    view.copy_(saved)
            self._processes.broadcast([self._gradients])
            for part, state in zip(self._gradient_parts, states, strict=True):
                state[moment].copy_(part)


def _round_up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
