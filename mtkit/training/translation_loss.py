"""The loss of a translator's batch: forward pass, then label-smoothed cross entropy."""

from dataclasses import dataclass

import torch

from mtkit.data.batches.collate import (
    JoinedBatch,
    TranslationBatch,
    collate_joined,
    lay_out,
    lay_out_side,
)
from mtkit.data.batches.ragged import Ragged
from mtkit.network import CausalLanguageModel, EncoderDecoder
from mtkit.network.watched_head import WatchedHead
from mtkit.training.loss import LossSums, output_cross_entropy


@dataclass(frozen=True)
class Guide:
    """A head that learns alignments.

    Attributes:
        layer: The decoder's layer, from 1.
        head: The head of it, from 1.
        weight: What its loss is multiplied by.
    """

    layer: int
    head: int
    weight: float


def measure_translation(
    model: EncoderDecoder,
    batch: TranslationBatch,
    *,
    label_smoothing: float,
    guide: Guide | None = None,
) -> LossSums:
    """Returns the loss of a batch, summed over its real target tokens.

    Where a head is guided, the cross entropy of its weights against the batch's links is added.
    """
    watched = None if guide is None else WatchedHead(guide.layer, guide.head)
    states = model(
        batch.source_tokens, batch.source_layout, batch.target_inputs, batch.target_layout, watched
    )
    sums = output_cross_entropy(
        model,
        batch.target_layout.select_tokens(states),
        batch.target_outputs,
        label_smoothing=label_smoothing,
        has_padding=batch.is_filled,
    )
    if guide is None or watched is None:
        return sums
    assert batch.links is not None, "links"
    log_weights = watched.find_log_weights(batch.target_layout, batch.source_layout)
    of_links = log_weights.index_select(0, batch.links.cells)
    # Each target token's alignment is a distribution over its source tokens.
    surprise = -(of_links / batch.links.num_sources).sum()
    return sums._replace(loss=sums.loss + guide.weight * surprise)


def measure_joined(
    model: CausalLanguageModel, batch: JoinedBatch, *, label_smoothing: float
) -> LossSums:
    """Returns the loss of a decoder-only translator, summed over a batch's target tokens."""
    states = model(batch.inputs, batch.layout)
    return output_cross_entropy(
        model,
        batch.layout.select_tokens(states)[batch.indices],
        batch.outputs,
        label_smoothing=label_smoothing,
    )


def measure_pairs(
    model: EncoderDecoder | CausalLanguageModel,
    source: Ragged,
    target: Ragged,
    *,
    device: torch.device,
    label_smoothing: float,
) -> LossSums:
    """Returns the loss of sentence pairs in one grid, by either kind of translator.

    Args:
        model: The network.
        source: The sources, each closed by `</s>`.
        target: Their targets, likewise.
        device: Where the network is.
        label_smoothing: Mass that is spread.
    """
    sizes = [len(source.lengths)]
    match model:
        case EncoderDecoder():
            pairs = lay_out(source, target, sizes).to(device)
            return measure_translation(model, pairs, label_smoothing=label_smoothing)
        case CausalLanguageModel():
            layout = lay_out_side(source.lengths + target.lengths, sizes)
            joined = collate_joined(source, target, layout).to(device)
            return measure_joined(model, joined, label_smoothing=label_smoothing)
