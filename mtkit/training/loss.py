"""Output projection and label-smoothed cross entropy, fused so that logits never exist whole.

A batch of 8,192 tokens with 32,000 pieces makes a gigabyte of logits, and each pass over them costs
more than the product that made them. Here a chunk of tokens at a time is projected, turned into its
loss and at once into its gradient, while it lies in the cache.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

_CHUNK_BYTES = {"cpu": 4 << 20, "cuda": 256 << 20}


class LossSums(NamedTuple):
    """Sums over a batch's real target tokens, in nats.

    Attributes:
        loss: Label-smoothed cross entropy; what is minimised.
        negative_log_likelihood: Cross entropy against the reference alone; what perplexity is of.
    """

    loss: Tensor
    negative_log_likelihood: Tensor


def projected_cross_entropy(
    states: Float[Tensor, "tokens d_model"],
    output_weight: Float[Tensor, "vocab d_model"],
    targets: Int[Tensor, "tokens"],
    *,
    label_smoothing: float,
) -> LossSums:
    """Returns the loss of predicting each target from its state.

    The reference distribution is 1 - label_smoothing on the target plus label_smoothing spread
    evenly over the whole vocabulary, the target included (arXiv 1512.00567, section 7; arXiv
    1706.03762, section 5.4). Under autocast the products are in its precision and sums in fp32.

    Args:
        states: Vectors of real tokens only.
        output_weight: The output projection.
        targets: The token each state should predict.
        label_smoothing: Mass that is spread.
    """
    loss, negative_log_likelihood = _ProjectedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        states, output_weight, targets, label_smoothing, torch.is_grad_enabled()
    )
    return LossSums(loss, negative_log_likelihood)


class _ProjectedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917 (autograd passes them so)
        ctx: Any,
        states: Tensor,
        output_weight: Tensor,
        targets: Tensor,
        label_smoothing: float,
        needs_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        device = states.device.type
        is_mixed = torch.is_autocast_enabled(device)
        product_type = torch.get_autocast_dtype(device) if is_mixed else states.dtype
        sum_type = torch.promote_types(states.dtype, torch.float32)
        vocab_size = output_weight.shape[0]
        weight_VD = output_weight.detach().to(product_type)
        states_learn, weight_learns = (needs_gradient and need for need in ctx.needs_input_grad[:2])
        states_gradient = torch.empty_like(states) if states_learn else None
        # A frozen projection needs no gradient, which would be a third of all products.
        weight_gradient = torch.zeros_like(output_weight) if weight_learns else None
        loss = torch.zeros((), dtype=sum_type, device=states.device)
        negative_log_likelihood = torch.zeros_like(loss)
        chunk = max(1, _CHUNK_BYTES.get(device, 64 << 20) // (vocab_size * 4))
        with torch.autocast(device, enabled=False):
            for first in range(0, len(states), chunk):
                states_ND = states[first : first + chunk].detach().to(product_type)
                targets_N1 = targets[first : first + chunk, None]
                logits_NV = (states_ND @ weight_VD.T).to(sum_type)
                target_logits_N1 = logits_NV.gather(1, targets_N1)
                mean_logits_N1 = logits_NV.mean(dim=1, keepdim=True)
                log_sum_N1 = torch.logsumexp(logits_NV, dim=1, keepdim=True)
                negative_log_likelihood += (log_sum_N1 - target_logits_N1).sum()
                expected_N1 = torch.lerp(target_logits_N1, mean_logits_N1, label_smoothing)
                loss += (log_sum_N1 - expected_N1).sum()
                if states_gradient is None and weight_gradient is None:
                    continue
                # d loss / d logits = softmax - reference distribution.
                gradient_NV = logits_NV.sub_(log_sum_N1).exp_()
                gradient_NV -= label_smoothing / vocab_size
                gradient_NV.scatter_add_(
                    1, targets_N1, torch.full_like(target_logits_N1, label_smoothing - 1.0)
                )
                gradient_NV = gradient_NV.to(product_type)
                if states_gradient is not None:
                    states_gradient[first : first + chunk] = gradient_NV @ weight_VD
                if weight_gradient is None:
                    continue
                if product_type == weight_gradient.dtype:
                    weight_gradient.addmm_(gradient_NV.T, states_ND)
                else:
                    weight_gradient += gradient_NV.T @ states_ND
        if states_gradient is not None or weight_gradient is not None:
            ctx.save_for_backward(states_gradient, weight_gradient)
        ctx.mark_non_differentiable(negative_log_likelihood)
        return loss, negative_log_likelihood

    @staticmethod
    def backward(
        ctx: Any, loss_gradient: Tensor, _: Tensor
    ) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        states_gradient, weight_gradient = (
            None if gradient is None else gradient * loss_gradient.to(gradient.dtype)
            for gradient in ctx.saved_tensors
        )
        return states_gradient, weight_gradient, None, None, None
