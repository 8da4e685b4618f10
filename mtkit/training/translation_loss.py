"""The loss of a translator's batch: forward pass, then label-smoothed cross entropy."""

import torch

from mtkit.data.batches.collate import TranslationBatch
from mtkit.network import EncoderDecoder, can_pack
from mtkit.recipe import Recipe
from mtkit.training.loss import LossSums, projected_cross_entropy


def can_pack_batches(model: EncoderDecoder, recipe: Recipe, device: torch.device) -> bool:
    """Checks that a device can train on packed batches: one pass without padding.

    Its kernel drops no attention weights.
    """
    return recipe.model.attention_dropout == 0.0 and can_pack(
        device,
        model.output_embedding.weight.dtype,
        d_key=recipe.model.d_key,
        d_value=recipe.model.d_value,
    )


def measure_translation(
    model: EncoderDecoder, batch: TranslationBatch, *, label_smoothing: float
) -> LossSums:
    """Returns the loss of a batch, summed over its real target tokens."""
    states = model(
        batch.source_tokens, batch.source_layout, batch.target_inputs, batch.target_layout
    )
    return projected_cross_entropy(
        batch.target_layout.select_tokens(states),
        model.output_embedding.weight,
        batch.target_outputs,
        label_smoothing=label_smoothing,
    )
