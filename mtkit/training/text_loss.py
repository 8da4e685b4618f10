"""The losses of batches of text in one language: causal and masked language models."""

import torch
from torch import Tensor, nn

from mtkit.data.batches.collate import MaskedBatch, TextBatch
from mtkit.network import CausalLanguageModel, MaskedLanguageModel
from mtkit.training.loss import LossSums, output_cross_entropy


def measure_causal(
    model: CausalLanguageModel, batch: TextBatch, *, label_smoothing: float
) -> LossSums:
    """Returns the loss of a batch, summed over its tokens."""
    states = model(batch.inputs, batch.layout)
    return output_cross_entropy(
        model,
        batch.layout.select_tokens(states),
        batch.outputs,
        label_smoothing=label_smoothing,
    )


def measure_masked(
    model: MaskedLanguageModel, batch: MaskedBatch, *, label_smoothing: float
) -> LossSums:
    """Returns the loss of a batch, summed over its hidden tokens and, beside it, over its pairs."""
    states = model(batch.inputs, batch.segments, batch.layout)
    return measure_encoded(model, states, batch, label_smoothing=label_smoothing)


def measure_encoded(
    model: MaskedLanguageModel, states: Tensor, batch: MaskedBatch, *, label_smoothing: float
) -> LossSums:
    """Returns `measure_masked` of a batch that the model has encoded."""
    sums = output_cross_entropy(
        model,
        model.masked_head(select_hidden(states, batch)),
        batch.outputs,
        label_smoothing=label_smoothing,
    )
    if batch.is_random is None:
        return sums
    logits = model.classify_pair(states, batch.layout)
    pairs = nn.functional.cross_entropy(
        logits.to(torch.promote_types(logits.dtype, torch.float32)),
        batch.is_random,
        reduction="sum",
    )
    return sums._replace(example_loss=pairs)


def select_hidden(states: Tensor, batch: MaskedBatch) -> Tensor:
    """Returns the states of the tokens that are predicted, [predicted, d_model]."""
    return batch.layout.select_tokens(states)[batch.indices]
