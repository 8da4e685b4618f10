"""The output projection and label-smoothed cross entropy, fused.

The full logits are never materialised. A batch of 8,192 tokens with 32,000 pieces has a gigabyte of
logits, and each pass over them costs more than the product that computes them. Here each chunk of
tokens is projected and turned into its loss and its gradient at once, while it is in the cache.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

_CHUNK_BYTES = {"cpu": 4 << 20, "cuda": 256 << 20}
_CHUNK_BYTES_OF_HALVES = _CHUNK_BYTES | {"cpu": 16 << 20}
"""In bfloat16 a CPU adds to the weights' gradient in a separate pass: fewer chunks are faster."""
_MIN_PROBABILITY = 1e-30
"""fp32 and bfloat16 begin to lose precision below it, fp16 below its smallest normal number."""


class ProjectedCrossEntropy(torch.autograd.Function):
    """The loss and its gradients, in the minimum number of passes over [tokens, vocab]."""

    # d loss / d logits = softmax - (1 - e) on the target - e / vocab, where e is the smoothing. The
    # last term is the same for every logit, so its share in both gradients is a product of two
    # vectors without a pass.

    @staticmethod
    def forward(  # noqa: PLR0917 (autograd passes them so)
        ctx: Any,
        states: Tensor,
        output_weight: Tensor,
        targets: Tensor,
        label_smoothing: float,
        divergence_weight: float,
        needs_gradient: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the loss, its cross entropy against the targets alone, and its divergence."""
        states_ND, weight_VD = states.detach(), output_weight.detach()
        vocab_size = weight_VD.shape[0]
        sum_type = torch.promote_types(states.dtype, torch.float32)
        states_learn, weight_learns = (needs_gradient and need for need in ctx.needs_input_grad[:2])
        states_gradient = torch.empty_like(states_ND) if states_learn else None
        # A frozen projection needs no gradient, which would be a third of all products.
        weight_gradient = torch.zeros_like(weight_VD, dtype=sum_type) if weight_learns else None
        target_logits_N = states_ND.new_empty(len(states_ND), dtype=sum_type)
        target_probabilities_N = torch.empty_like(target_logits_N)
        on_cpu = states_ND.device.type == "cpu"
        log_sums_N = None if on_cpu else torch.empty_like(target_logits_N)
        weight_sum_D = weight_VD.sum(dim=0, dtype=sum_type)
        divergence = target_logits_N.new_zeros(())
        rows = torch.arange(len(states_ND), device=states.device)
        parts = list(_chunks(states_ND, vocab_size, step=2 if divergence_weight else 1))
        # On a CPU one buffer for all chunks, for logits and gradient: fresh memory is expensive.
        num_at_once = len(states_ND[parts[0]]) if parts and on_cpu else 0
        buffer_NV = states_ND.new_empty(num_at_once, vocab_size) if num_at_once else None
        for part in parts:
            num_rows = len(targets[part])
            out_NV = None if buffer_NV is None else buffer_NV[:num_rows]
            # Not scatter_add: in bfloat16 it copies the whole chunk to fp32 and back.
            of_targets = rows[:num_rows], targets[part]
            logits_NV = torch.mm(states_ND[part], weight_VD.T, out=out_NV)
            target_logits_N[part] = logits_NV[of_targets].to(sum_type)
            if log_sums_N is not None:
                log_sums_N[part], largest = logits_NV.max(dim=1)
            # Now, because on a CPU the softmax overwrites logits.
            gaps_MV = logits_NV[::2] - logits_NV[1::2] if divergence_weight else None
            gradient_NV = torch.softmax(logits_NV, dim=1, out=out_NV)
            target_probabilities_N[part] = gradient_NV[of_targets].to(sum_type)
            if log_sums_N is not None:
                log_sums_N[part] -= gradient_NV[rows[:num_rows], largest].to(sum_type).log()
            if gaps_MV is not None:
                divergence += _add_divergence(gradient_NV, gaps_MV, divergence_weight)
            if not (states_learn or weight_learns):
                continue
            from_targets_N = gradient_NV[of_targets].to(sum_type) + (label_smoothing - 1.0)
            gradient_NV[of_targets] = from_targets_N.to(gradient_NV.dtype)
            if states_gradient is not None:
                torch.mm(gradient_NV, weight_VD, out=states_gradient[part])
            _add_product(weight_gradient, gradient_NV, states_ND[part])
        spread = label_smoothing / vocab_size
        if states_gradient is not None:
            states_gradient -= (spread * weight_sum_D).to(states_gradient.dtype)
        if weight_gradient is not None:
            weight_gradient -= spread * states_ND.sum(dim=0, dtype=sum_type)
        if states_gradient is not None or weight_gradient is not None:
            ctx.save_for_backward(states_gradient, weight_gradient)
        precise_N = None if log_sums_N is None else log_sums_N - target_logits_N
        nll = _sum_nll(target_probabilities_N, states_ND, weight_VD, targets, precise_N)
        logits_sum = (states_ND.to(sum_type) @ weight_sum_D).sum() / vocab_size
        loss = nll + label_smoothing * (target_logits_N.sum() - logits_sum) + divergence
        ctx.mark_non_differentiable(nll, divergence)
        return loss, nll, divergence

    @staticmethod
    def backward(
        ctx: Any, loss_gradient: Tensor, *_: Tensor
    ) -> tuple[Tensor | None, Tensor | None, None, None, None, None]:
        """Returns the gradients of states and weight, which `forward` has computed."""
        states_gradient, weight_gradient = (
            None if gradient is None else gradient * loss_gradient.to(gradient.dtype)
            for gradient in ctx.saved_tensors
        )
        return states_gradient, weight_gradient, None, None, None, None


def _add_divergence(probabilities_NV: Tensor, gaps_MV: Tensor, weight: float) -> Tensor:
    """Returns the divergence of a chunk's pairs, and adds its gradient to their probabilities."""
    # With g = logits 1 - logits 2, both directions are the sum of (P1 - P2) g, because the
    # normalisers cancel. The gradient of logits 1 is P1 (g - E1[g]) + P1 - P2; that of logits 2 has
    # 1 and 2 swapped, and -g for g.
    first_MV, second_MV = probabilities_NV[::2], probabilities_NV[1::2]
    apart_MV = first_MV - second_MV
    sum_type = torch.promote_types(gaps_MV.dtype, torch.float32)
    divergence = weight * (apart_MV * gaps_MV).sum(dtype=sum_type)
    for own_MV, sign in ((first_MV, weight), (second_MV, -weight)):
        means_M1 = (own_MV * gaps_MV).sum(dim=1, keepdim=True, dtype=sum_type)
        around_MV = (gaps_MV - means_M1.to(gaps_MV.dtype)).mul_(own_MV)
        own_MV.add_(around_MV.add_(apart_MV), alpha=sign)
    return divergence


def _add_product(weight_gradient_VD: Tensor | None, gradient_NV: Tensor, states_ND: Tensor) -> None:
    """Adds a chunk's share of the projection's gradient, if it has one."""
    if weight_gradient_VD is None:
        return
    if weight_gradient_VD.dtype == gradient_NV.dtype:
        weight_gradient_VD.addmm_(gradient_NV.T, states_ND)
    else:
        weight_gradient_VD += gradient_NV.T @ states_ND


def _chunks(states_ND: Tensor, vocab_size: int, *, step: int = 1) -> Iterator[slice]:
    """Yields slices of tokens, a multiple of `step`, whose logits fit into a cache."""
    sizes = _CHUNK_BYTES if states_ND.element_size() > 2 else _CHUNK_BYTES_OF_HALVES
    bytes_at_once = sizes.get(states_ND.device.type, 64 << 20)
    size = max(1, bytes_at_once // (vocab_size * states_ND.element_size() * step)) * step
    for first in range(0, len(states_ND), size):
        yield slice(first, first + size)


def _sum_nll(
    target_probabilities_N: Tensor,
    states_ND: Tensor,
    weight_VD: Tensor,
    targets: Tensor,
    precise_N: Tensor | None,
) -> Tensor:
    """Returns the sum of -log p over the targets, even if p is too small for its dtype.

    On a GPU `precise_N` is -log p from logits: checking which p are too small would wait for it.
    """
    surprise_N = -target_probabilities_N.log()
    smallest = max(_MIN_PROBABILITY, torch.finfo(states_ND.dtype).tiny)
    if precise_N is not None:
        is_small_N = target_probabilities_N < smallest
        return torch.where(is_small_N, precise_N, surprise_N).sum()
    rows = torch.nonzero(target_probabilities_N < smallest)[:, 0]
    for part in _chunks(rows[:, None].to(surprise_N.dtype), weight_VD.shape[0]):
        logits_NV = (states_ND[rows[part]] @ weight_VD.T).to(surprise_N.dtype)
        target_logits_N = logits_NV.gather(1, targets[rows[part], None])[:, 0]
        surprise_N[rows[part]] = torch.logsumexp(logits_NV, dim=1) - target_logits_N
    return surprise_N.sum()
