"""Attention for alignments by PyTorch, of given targets or of search results.

A search keeps its encoder outputs, so that sources aren't encoded twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mtkit.inference.engines.engine import (
    EncodedSource,
    list_aligned_inputs,
    make_batches,
    pad_attention,
)
from mtkit.inference.search.step_model import EncoderDecoderSteps, StepModel
from mtkit.inference.translation import Hypothesis
from mtkit.model.alignment_head import AlignmentHead, default_head
from mtkit.network import CausalLanguageModel, EncoderDecoder, PaddedLayout
from mtkit.network.attention import WatchedHead

GeneratingNetwork = EncoderDecoder | CausalLanguageModel
"""A network that emits text, token by token."""
_MAX_ALIGNED_TOKENS = 2_048
"""Target tokens with padding that are processed together."""
Pad = Callable[[Sequence[Sequence[int]]], tuple[Tensor, PaddedLayout]]
"""Returns sentences padded at the end, on the networks' device, and their layout."""


class TorchAligner:
    """Reads the attention of one head of each network, averaged over an ensemble.

    Callers put the networks in evaluation mode. Without `heads`, alignments are read from the
    mean of the last layer. `max_tokens` is the smallest number of positions; None for no limit.
    """

    def __init__(
        self,
        models: Sequence[GeneratingNetwork],
        heads: Sequence[AlignmentHead] | None,
        max_tokens: int | None,
        pad: Pad,
    ) -> None:
        self._models = [model for model in models if isinstance(model, EncoderDecoder)]
        self._heads, self._max_tokens, self._pad = heads, max_tokens, pad
        self.can_align = len(self._models) == len(models)
        """Whether all models have attention to a source."""

    def align(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[NDArray[np.float32]]:
        """Returns how much each target's tokens attend to each source token."""
        sources, source_layout = self._pad(source_batch)
        memories = [model.encode(sources, source_layout) for model in self._models]
        return self._watch(memories, source_layout, source_batch, target_batch)

    def add_weights(
        self,
        sources: Sequence[EncodedSource],
        found: Sequence[Sequence[Hypothesis]],
        members: Sequence[StepModel],
    ) -> list[list[Hypothesis]]:
        """Returns hypotheses with alignment weights, from a second pass over whole outputs.

        `members` are the models, which have read the sources and kept their encoder outputs.
        """
        if not any(found):
            return [[] for _ in found]
        of_rows = [index for index, each in enumerate(found) for _ in each]
        outputs = [hypothesis.token_ids for each in found for hypothesis in each]
        tokens = [source.tokens for source in sources]
        is_token = self._pad(tokens)[1].is_token
        memories = [_take_memory(member) for member in members]
        weights: dict[int, NDArray[np.float32]] = {}
        # Grouped by length: an output that reaches its limit would pad all others.
        for batch in make_batches(list(map(len, outputs)), _MAX_ALIGNED_TOKENS, len(sources)):
            indices = [of_rows[number] for number in batch]
            rows = torch.tensor(indices, device=is_token.device)
            of_batch = self._watch(
                [memory[rows] for memory in memories],
                PaddedLayout(is_token[rows]),
                [tokens[index] for index in indices],
                [outputs[number] for number in batch],
            )
            weights.update(zip(batch, of_batch, strict=True))
        watched = iter([weights[number] for number in range(len(outputs))])
        return [
            [replace(hypothesis, alignment_weights=next(watched)) for hypothesis in each]
            for each in found
        ]

    def find_heads(self) -> Sequence[AlignmentHead]:
        """Returns the head of each network that alignments are read from."""
        return self._heads or [default_head(model.model) for model in self._models]

    def _watch(
        self,
        memories: Sequence[Float[Tensor, "batch src_len d_model"]],
        source_layout: PaddedLayout,
        source_batch: Sequence[Sequence[int]],
        target_batch: Sequence[Sequence[int]],
    ) -> list[NDArray[np.float32]]:
        """Implements `align`, from the encoder outputs of each model."""
        heads = self.find_heads()
        inputs = [list_aligned_inputs(target, self._max_tokens) for target in target_batch]
        targets, target_layout = self._pad(inputs)
        found = []
        for model, head, memory in zip(self._models, heads, memories, strict=True):
            watched = WatchedHead(head.layer, head.head)
            chosen = model.watch(memory, source_layout, targets, target_layout, watched)
            end = chosen.shape[1] - 1 + head.first_row
            found.append(chosen[:, head.first_row : end])
        means = torch.stack(found).mean(dim=0).cpu().numpy()
        return [
            pad_attention(weights[: len(begun) - 1, : len(source)], len(target))
            for weights, begun, source, target in zip(
                means, inputs, source_batch, target_batch, strict=True
            )
        ]


def _take_memory(member: StepModel) -> Float[Tensor, "batch src_len d_model"]:
    """Returns a model's encoder outputs, padded."""
    assert isinstance(member, EncoderDecoderSteps), "can_align"
    assert member.memory is not None, "kept"
    return member.memory
