"""Layer normalisation (arXiv 1607.06450)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.recipe.model import Model


class LayerNorm(nn.LayerNorm):
    """PyTorch's, whose gradients keep their digits on a CPU too.

    In bfloat16, PyTorch's kernel for a CPU sums up the gradients of weight and bias over all tokens
    in bfloat16: after some thousand they are a tenth off, and more where most have one sign.
    """

    def __init__(self, config: Model) -> None:
        super().__init__(config.d_model, eps=config.norm_epsilon)

    def forward(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Returns each vector with mean 0 and variance 1, times weight plus bias."""
        if inputs.device.type != "cpu" or inputs.dtype != torch.bfloat16:
            return super().forward(inputs)
        weight, bias = self.weight.float(), self.bias.float()
        normed = nn.functional.layer_norm(inputs.float(), weight.shape, weight, bias, self.eps)
        return normed.to(inputs.dtype)
