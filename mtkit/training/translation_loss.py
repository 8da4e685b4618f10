"""The loss of a translator's batch: forward pass, then label-smoothed cross entropy."""

import torch

from mtkit.data.batches.collate import Batch, GridSide, PackedSide, RowBatch
from mtkit.network import EncoderDecoder, Grids, Packing, can_pack
from mtkit.recipe import Recipe
from mtkit.training.loss import LossSums, projected_cross_entropy


def can_pack_batches(model: EncoderDecoder, recipe: Recipe, device: torch.device) -> bool:
    """Returns whether a device can train on packed batches: one pass without padding.

    Its kernel drops no attention weights.
    """
    return recipe.model.attention_dropout == 0.0 and can_pack(
        device,
        model.output_embedding.weight.dtype,
        d_key=recipe.model.d_key,
        d_value=recipe.model.d_value,
    )


def measure_translation(
    model: EncoderDecoder, batch: Batch | RowBatch, *, label_smoothing: float
) -> LossSums:
    """Returns the loss of a batch, summed over its real target tokens."""
    if isinstance(batch, Batch):
        states_BTD = model(batch.source_tokens, batch.source_is_token, batch.target_inputs)
        states_ND = states_BTD[batch.target_is_token]
        targets_N = batch.target_outputs[batch.target_is_token]
    else:
        source, target = _locate(batch.source), _locate(batch.target)
        states_ND = model(batch.source_tokens, source, batch.target_inputs, target)[0]
        if isinstance(batch.target, GridSide):
            states_ND = states_ND[batch.target.tokens_at]
        targets_N = batch.target_outputs
    return projected_cross_entropy(
        states_ND, model.output_embedding.weight, targets_N, label_smoothing=label_smoothing
    )


def _locate(side: PackedSide | GridSide) -> Packing | Grids:
    if isinstance(side, PackedSide):
        return Packing(side.offsets, side.places, side.longest)
    return Grids(side.shapes, side.is_token, side.places, side.longest)
