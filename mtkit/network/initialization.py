"""Every initial weight, in one function."""

import torch
from torch import nn

from mtkit.network.embeddings import SegmentEmbedding, TokenEmbedding
from mtkit.network.fused_linear import FusedLinear
from mtkit.network.positions import LearnedPositions


def initialize(module: nn.Module, *, std: float | None = None) -> None:
    """Sets every parameter below `module`, in a fixed order, from torch's generator.

    The paper (arXiv 1706.03762) is silent. As in its authors' code, matrices are Glorot-uniform and
    embeddings normal with variance 1/d_model, so that sqrt(d_model) times one has variance 1;
    biases are 0, norms 1. Fused maps (queries, keys and values; a gate and its input) are drawn
    each for itself: Glorot's bound depends on a map's own width. The output's bias is 0 already.

    Args:
        module: A network.
        std: Standard deviation of the normal distribution that all matrices and embeddings are
            drawn from instead, as in GPT (Radford et al. 2018, section 4.1) and BERT.
    """
    with torch.no_grad():
        for part in module.modules():
            match part:
                case nn.Linear():
                    if std is None:
                        nn.init.xavier_uniform_(part.weight)
                    else:
                        nn.init.normal_(part.weight, std=std)
                    nn.init.zeros_(part.bias)
                case nn.LayerNorm():
                    nn.init.ones_(part.weight)
                    nn.init.zeros_(part.bias)
                case TokenEmbedding() | LearnedPositions() | SegmentEmbedding():
                    nn.init.normal_(part.weight, std=std or part.weight.shape[1] ** -0.5)
        if std is not None:
            return
        # After all others: the order of draws is part of what a seed means.
        for part in module.modules():
            if isinstance(part, FusedLinear):
                for weight in torch.split(part.weight, list(part.widths)):
                    nn.init.xavier_uniform_(weight)
