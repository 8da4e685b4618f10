"""Layer normalisation of bfloat16 on a CPU, whose gradients keep their digits.

PyTorch's kernel sums up the gradients of weight and bias over all tokens in bfloat16: after some
thousand they are a tenth off, and more where most have one sign.
"""

from jaxtyping import Float
from torch import Tensor, nn


def norm_in_fp32(
    inputs: Float[Tensor, "*shape width"],
    weight: Float[Tensor, " width"],
    bias: Float[Tensor, " width"],
    epsilon: float,
) -> Float[Tensor, "*shape width"]:
    """Returns each vector normalised, in its own precision."""
    normed = nn.functional.layer_norm(
        inputs.float(), weight.shape, weight.float(), bias.float(), epsilon
    )
    return normed.to(inputs.dtype)
