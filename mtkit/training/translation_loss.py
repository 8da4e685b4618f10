"""The loss of a translator's batch: forward pass, then label-smoothed cross entropy."""

import torch
from torch import Tensor, nn

from mtkit.data.batches.collate import TranslationBatch
from mtkit.network import EncoderDecoder, can_pack
from mtkit.recipe import Recipe
from mtkit.training.loss import LossSums, projected_cross_entropy

_WIDTH_STEP = 8


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
    states = batch.target_layout.select_tokens(states)
    output_weight: Tensor = model.output_embedding.weight
    if model.output_bias is not None:
        states, output_weight = _append_bias(states, output_weight, model.output_bias)
    return projected_cross_entropy(
        states,
        output_weight,
        batch.target_outputs,
        label_smoothing=label_smoothing,
    )


def _append_bias(states_ND: Tensor, weight_VD: Tensor, bias_V: Tensor) -> tuple[Tensor, Tensor]:
    """Returns states and weights whose products are those given plus the bias.

    Every state has a 1 more, against which the bias stands; zeros fill up to a width that a GPU
    multiplies fast.
    """
    ones = nn.functional.pad(torch.ones_like(states_ND[:, :1]), (0, _WIDTH_STEP - 1))
    biases = nn.functional.pad(bias_V[:, None], (0, _WIDTH_STEP - 1))
    return torch.cat((states_ND, ones), dim=1), torch.cat((weight_VD, biases), dim=1)
