"""The loss of a translator's batch: forward pass, then label-smoothed cross entropy."""

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
from mtkit.training.loss import LossSums, output_cross_entropy


def measure_translation(
    model: EncoderDecoder, batch: TranslationBatch, *, label_smoothing: float
) -> LossSums:
    """Returns the loss of a batch, summed over its real target tokens."""
    states = model(
        batch.source_tokens, batch.source_layout, batch.target_inputs, batch.target_layout
    )
    return output_cross_entropy(
        batch.target_layout.select_tokens(states),
        model.output_embedding.weight,
        model.output_bias,
        batch.target_outputs,
        label_smoothing=label_smoothing,
    )


def measure_joined(
    model: CausalLanguageModel, batch: JoinedBatch, *, label_smoothing: float
) -> LossSums:
    """Returns the loss of a decoder-only translator, summed over a batch's target tokens."""
    states = model(batch.inputs, batch.layout)
    return output_cross_entropy(
        batch.layout.select_tokens(states)[batch.indices],
        model.output_embedding.weight,
        model.output_bias,
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
