"""Adam over a model's weights."""

import torch
from torch import nn

from mtkit.recipe.training import Adam


def build_optimizer(model: nn.Module, adam: Adam) -> torch.optim.AdamW:
    """Returns Adam (arXiv 1412.6980) over all weights that learn, its moments at zero.

    The loop sets its rate at every step. Decoupled decay (arXiv 1711.05101) acts on matrices; with
    decay 0 this is plain Adam.
    """
    parameters = [weight for weight in model.parameters() if weight.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": adam.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
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
    """Sets the rate of every group of the optimizer."""
    for group in optimizer.param_groups:
        group["lr"] = rate
