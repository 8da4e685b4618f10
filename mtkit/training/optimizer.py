"""Adam over a model's weights."""

from typing import Any

import torch
from torch import nn

from mtkit.recipe.training import Adam

_OUTPUT_BIAS = "output_bias"
_IS_KEPT = "is_kept"


def build_optimizer(model: nn.Module, adam: Adam, *, keeps_bias: bool = False) -> torch.optim.AdamW:
    """Returns Adam (arXiv 1412.6980) over all weights that learn, its moments at zero.

    The loop sets its rate at every step. Decoupled decay (arXiv 1711.05101) acts on matrices; with
    decay 0 this is plain Adam.

    Args:
        model: The model.
        adam: The recipe's section.
        keeps_bias: Whether the bias of the output stays as it is. It has moments all the same, so
            that checkpoints have the same tensors.
    """
    learning = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
    parameters = [weight for _, weight in learning]
    kept = [weight for name, weight in learning if keeps_bias and name == _OUTPUT_BIAS]
    vectors = [weight for weight in parameters if weight.ndim < 2]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": adam.weight_decay},
        {"params": [p for p in vectors if not any(p is one for one in kept)], "weight_decay": 0.0},
    ]
    if kept:
        groups.append({"params": kept, "weight_decay": 0.0, _IS_KEPT: True})
    optimizer = torch.optim.AdamW(
        groups, lr=0.0, betas=(adam.beta1, adam.beta2), eps=adam.epsilon, fused=True
    )
    # Torch would make them in the first update; here, memory is tried and shared out before.
    for weight in parameters:
        optimizer.state[weight] = {
            "step": torch.zeros((), device=weight.device),
            "exp_avg": torch.zeros_like(weight),
            "exp_avg_sq": torch.zeros_like(weight),
        }
    return optimizer


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Sets the rate of every group of the optimizer whose weights are to change."""
    for group in optimizer.param_groups:
        group["lr"] = 0.0 if group.get(_IS_KEPT) else rate
