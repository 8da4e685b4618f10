"""Layer normalisation (arXiv 1607.06450)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.network.cpu.layer_norm import norm_in_fp32


class LayerNorm(nn.LayerNorm):
    """PyTorch's, whose gradients are summed up in fp32 on a CPU too."""

    def forward(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Returns each vector with mean 0 and variance 1, times weight plus bias."""
        if inputs.device.type == "cpu" and inputs.dtype == torch.bfloat16:
            return norm_in_fp32(inputs, self.weight, self.bias, self.eps)
        return super().forward(inputs)
