"""Adam over a model's weights."""

import torch
from torch import nn

from mtkit.recipe.training import Adam


def build_optimizer(model: nn.Module, adam: Adam) -> torch.optim.AdamW:
    """Returns Adam (arXiv 1412.6980) over all weights that learn; the loop sets its rate.

    Decoupled decay (arXiv 1711.05101) acts on matrices; with decay 0 this is plain Adam.
    """
    parameters = [weight for weight in model.parameters() if weight.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": adam.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups, lr=0.0, betas=(adam.beta1, adam.beta2), eps=adam.epsilon, fused=True
    )


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Leaves every group of the optimizer at one rate."""
    for group in optimizer.param_groups:
        group["lr"] = rate
