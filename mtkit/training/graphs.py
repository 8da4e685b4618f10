"""CUDA graphs: a pass's kernels, forward and backward, captured once per shape, then replayed.

A small model's kernels take less time than Python takes to launch them. A graph launches all of a
pass at once. It reads and writes the same memory each time, so each batch is copied into the
recorded one, and batches come in few shapes (`TranslationBatch.fill`).
"""

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from mtkit.data.batches.collate import TranslationBatch
from mtkit.network import PackedLayout

RunPass = Callable[[TranslationBatch, Tensor], Tensor]
"""Adds the gradients of a batch, times a factor, and returns its sums."""
_MAX_RECORDED = 24
"""Each shape keeps gradients of its own; later shapes run without a graph."""
_NUM_WARM_UPS = 2
"""Libraries initialise in the first passes, which can't be recorded."""


class CapturedPasses:
    """The recorded passes of a model, by shape.

    The weights and buffers of `model` must stay at their addresses. `run` must not wait for the
    GPU.
    """

    def __init__(self, model: nn.Module, run: RunPass) -> None:
        self._model, self._run = model, run
        self._passes: dict[Hashable, _RecordedPass] = {}
        self._pool = torch.cuda.graph_pool_handle()
        # A table of positions may be replaced by a longer one; recorded graphs still read this one.
        self._buffers = list(model.buffers())

    def run(self, batch: TranslationBatch, scale: float) -> Tensor:
        """Sets the model's gradients to those of a batch, times a factor; returns its sums.

        The next pass overwrites the sums and the gradients.
        """
        shape = _shape_of(batch)
        if shape not in self._passes:
            if len(self._passes) == _MAX_RECORDED:
                return self._run(batch, torch.full((), scale, device=batch.source_tokens.device))
            self._passes[shape] = _RecordedPass(self._model, self._run, batch, self._pool)
        return self._passes[shape].replay(batch, scale)


class _RecordedPass:
    """A pass of one shape, with the batch that it reads."""

    def __init__(self, model: nn.Module, run: RunPass, batch: TranslationBatch, pool: Any) -> None:
        # The graph also reads tensors that are never copied into: they must not be freed.
        self._batch, self._tensors = batch, _tensors_of(batch)
        self._scale = torch.ones((), device=batch.source_tokens.device)
        # Recording draws random numbers, and an update must not depend on whether it records.
        state = torch.cuda.get_rng_state()
        current, side_stream = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side_stream.wait_stream(current)
        with torch.cuda.stream(side_stream):
            for _ in range(_NUM_WARM_UPS):
                run(_forget_masks(batch), self._scale)
                model.zero_grad(set_to_none=True)
        current.wait_stream(side_stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=pool):
            self._sums = run(_forget_masks(batch), self._scale)
        self._gradients = [
            (weight, weight.grad) for weight in model.parameters() if weight.grad is not None
        ]
        torch.cuda.set_rng_state(state)

    def replay(self, batch: TranslationBatch, scale: float) -> Tensor:
        self._scale.fill_(scale)
        for ours, given in zip(self._tensors, _tensors_of(batch), strict=True):
            if ours is not given:
                ours.copy_(given, non_blocking=True)
        self._graph.replay()
        for weight, gradient in self._gradients:
            weight.grad = gradient
        return self._sums


def _forget_masks(batch: TranslationBatch) -> TranslationBatch:
    """Returns a batch whose masks are computed again from its tensors, in a recording too."""
    layouts = batch.source_layout, batch.target_layout
    source, target = (replace(each) for each in layouts if isinstance(each, PackedLayout))
    return replace(batch, source_layout=source, target_layout=target)


def _tensors_of(batch: TranslationBatch) -> list[Tensor]:
    layouts = batch.source_layout, batch.target_layout
    placed = [
        tensor
        for layout in layouts
        if isinstance(layout, PackedLayout)
        for tensor in (layout.sentences, layout.positions)
    ]
    return [batch.source_tokens, batch.target_inputs, batch.target_outputs, *placed]


def _shape_of(batch: TranslationBatch) -> Hashable:
    lengths = batch.source_layout.max_length, batch.target_layout.max_length
    return *lengths, *(tensor.shape for tensor in _tensors_of(batch))
