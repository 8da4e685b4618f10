"""The loss of a batch of each kind: a forward pass, then label-smoothed cross entropy.

The output projection and the cross entropy are fused, so that logits never exist as a whole. A
batch of 8,192 tokens with 32,000 pieces has a gigabyte of logits, and each pass over them costs
more than the product that computes them. Here each chunk of tokens is projected and turned into its
loss and its gradient at once, while it is in the cache.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.data.batches.collate import (
    JoinedBatch,
    MaskedBatch,
    TextBatch,
    TranslationBatch,
)
from mtkit.data.batches.examples import ExampleBatch
from mtkit.network import (
    CausalClassifier,
    CausalLanguageModel,
    EncoderDecoder,
    MaskedClassifier,
    MaskedLanguageModel,
)
from mtkit.network.attention import WatchedHead
from mtkit.text.token_ids import PAD

TranslatingModel = EncoderDecoder | CausalLanguageModel
GeneratingModel = TranslatingModel | MaskedLanguageModel | CausalClassifier

_CHUNK_BYTES = {"cpu": 4 << 20, "cuda": 256 << 20}
_CHUNK_BYTES_OF_HALVES = _CHUNK_BYTES | {"cpu": 16 << 20}
"""In bfloat16 a CPU adds to the weights' gradient in a separate pass: fewer chunks are faster."""
_WIDTH_STEP = 8
_MIN_PROBABILITY = 1e-30
"""fp32 and bfloat16 begin to lose digits below it."""


class LossSums(NamedTuple):
    """Sums over a batch, in nats, over its real target tokens.

    Attributes:
        loss: Label-smoothed cross entropy, which is minimised.
        negative_log_likelihood: Cross entropy against the reference alone, for perplexity.
        example_loss: Another loss, summed over the batch's examples. Its mean over an update's
            examples is minimised together with the mean of `loss`.
    """

    loss: Tensor
    negative_log_likelihood: Tensor
    example_loss: Tensor | None = None

    def join(self, num_target_tokens: int, num_examples: int) -> Tensor:
        """Returns one sum whose mean over an update's target tokens is the sum of both means.

        Both counts are of the update on all ranks.
        """
        if self.example_loss is None:
            return self.loss
        return self.loss + self.example_loss * (num_target_tokens / num_examples)


def output_cross_entropy(
    model: GeneratingModel,
    states: Float[Tensor, "tokens d_model"],
    targets: Int[Tensor, "tokens"],
    *,
    label_smoothing: float,
    has_padding: bool = False,
) -> LossSums:
    """Returns `projected_cross_entropy` of a model's logits, with each piece's bias, if any.

    With `has_padding`, targets that are padding don't count in the sums.
    """
    weight: Tensor = model.output_embedding.weight
    bias = model.output_bias
    if bias is not None:
        states, weight = _append_bias(states, weight, bias)
    if not has_padding:
        return projected_cross_entropy(states, weight, targets, label_smoothing=label_smoothing)
    # All logits of a zero state are 0: each such target costs log(pieces) and has no gradient.
    is_padding = targets == PAD
    kept = states.masked_fill(is_padding[:, None], 0.0)
    sums = projected_cross_entropy(kept, weight, targets, label_smoothing=label_smoothing)
    zeros_1V = weight.new_zeros(1, len(weight)).detach()
    each = -torch.softmax(zeros_1V, dim=1)[0, 0].to(sums.loss.dtype).log()
    surplus = each * is_padding.sum()
    return LossSums(sums.loss - surplus, sums.negative_log_likelihood - surplus)


def _append_bias(states_ND: Tensor, weight_VD: Tensor, bias_V: Tensor) -> tuple[Tensor, Tensor]:
    """Returns states and weights whose products include the bias."""
    # Every state gets a 1, which multiplies the bias; zeros pad to a width that a GPU multiplies
    # fast.
    ones = nn.functional.pad(torch.ones_like(states_ND[:, :1]), (0, _WIDTH_STEP - 1))
    biases = nn.functional.pad(bias_V[:, None], (0, _WIDTH_STEP - 1))
    return torch.cat((states_ND, ones), dim=1), torch.cat((weight_VD, biases), dim=1)


def projected_cross_entropy(
    states: Float[Tensor, "tokens d_model"],
    output_weight: Float[Tensor, "vocab d_model"],
    targets: Int[Tensor, "tokens"],
    *,
    label_smoothing: float,
) -> LossSums:
    """Returns the loss of predicting each target from its state.

    The reference distribution is 1 - label_smoothing on the target plus label_smoothing spread
    evenly over the whole vocabulary, target included (arXiv 1512.00567, section 7; arXiv
    1706.03762, section 5.4). Products are in the states' precision, sums in at least fp32. `states`
    are of real tokens only.
    """
    loss, negative_log_likelihood = _ProjectedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        states, output_weight, targets, label_smoothing, torch.is_grad_enabled()
    )
    return LossSums(loss, negative_log_likelihood)


class _ProjectedCrossEntropy(torch.autograd.Function):
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
        needs_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
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
        rows = torch.arange(len(states_ND), device=states.device)
        parts = list(_chunks(states_ND, vocab_size))
        buffer_NV = None
        if parts and on_cpu:
            # One buffer for all chunks, and for logits and gradient: fresh memory is expensive on a
            # CPU.
            buffer_NV = states_ND.new_empty(len(states_ND[parts[0]]), vocab_size)
        for part in parts:
            num_rows = len(targets[part])
            out_NV = None if buffer_NV is None else buffer_NV[:num_rows]
            # Not scatter_add: in bfloat16 it copies the whole chunk to fp32 and back.
            of_targets = rows[:num_rows], targets[part]
            logits_NV = torch.mm(states_ND[part], weight_VD.T, out=out_NV)
            target_logits_N[part] = logits_NV[of_targets].to(sum_type)
            if log_sums_N is not None:
                log_sums_N[part], largest = logits_NV.max(dim=1)
            gradient_NV = torch.softmax(logits_NV, dim=1, out=out_NV)
            target_probabilities_N[part] = gradient_NV[of_targets].to(sum_type)
            if log_sums_N is not None:
                log_sums_N[part] -= gradient_NV[rows[:num_rows], largest].to(sum_type).log()
            if not (states_learn or weight_learns):
                continue
            from_targets_N = target_probabilities_N[part] + (label_smoothing - 1.0)
            gradient_NV[of_targets] = from_targets_N.to(gradient_NV.dtype)
            if states_gradient is not None:
                torch.mm(gradient_NV, weight_VD, out=states_gradient[part])
            if weight_gradient is not None:
                _add_product(weight_gradient, gradient_NV, states_ND[part])
        spread = label_smoothing / vocab_size
        if states_gradient is not None:
            states_gradient -= (spread * weight_sum_D).to(states_gradient.dtype)
        if weight_gradient is not None:
            weight_gradient -= spread * states_ND.sum(dim=0, dtype=sum_type)
        if states_gradient is not None or weight_gradient is not None:
            ctx.save_for_backward(states_gradient, weight_gradient)
        if log_sums_N is None:
            negative_log_likelihood = _sum_surprise(
                target_probabilities_N, states_ND, weight_VD, targets
            )
        else:
            # Checking which are too small would wait for the GPU.
            is_small_N = target_probabilities_N < _MIN_PROBABILITY
            negative_log_likelihood = torch.where(
                is_small_N, log_sums_N - target_logits_N, -target_probabilities_N.log()
            ).sum()
        logits_sum = (states_ND.to(sum_type) @ weight_sum_D).sum() / vocab_size
        loss = negative_log_likelihood + label_smoothing * (target_logits_N.sum() - logits_sum)
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


def _add_product(weight_gradient_VD: Tensor, gradient_NV: Tensor, states_ND: Tensor) -> None:
    """Adds a chunk's share of the projection's gradient."""
    if weight_gradient_VD.dtype == gradient_NV.dtype:
        weight_gradient_VD.addmm_(gradient_NV.T, states_ND)
    else:
        weight_gradient_VD += gradient_NV.T @ states_ND


def _chunks(states_ND: Tensor, vocab_size: int) -> Iterator[slice]:
    """Yields slices of tokens whose logits fit into a cache."""
    sizes = _CHUNK_BYTES if states_ND.element_size() > 2 else _CHUNK_BYTES_OF_HALVES
    bytes_at_once = sizes.get(states_ND.device.type, 64 << 20)
    size = max(1, bytes_at_once // (vocab_size * states_ND.element_size()))
    for first in range(0, len(states_ND), size):
        yield slice(first, first + size)


def _sum_surprise(
    target_probabilities_N: Tensor, states_ND: Tensor, weight_VD: Tensor, targets: Tensor
) -> Tensor:
    """Returns the sum of -log p over the targets, even if p is too small for its dtype."""
    surprise_N = -target_probabilities_N.log()
    rows = torch.nonzero(target_probabilities_N < _MIN_PROBABILITY)[:, 0]
    for part in _chunks(rows[:, None].to(surprise_N.dtype), weight_VD.shape[0]):
        logits_NV = (states_ND[rows[part]] @ weight_VD.T).to(surprise_N.dtype)
        target_logits_N = logits_NV.gather(1, targets[rows[part], None])[:, 0]
        surprise_N[rows[part]] = torch.logsumexp(logits_NV, dim=1) - target_logits_N
    return surprise_N.sum()


@dataclass(frozen=True)
class AlignmentGuide:
    """A head that learns alignments.

    Attributes:
        layer: The decoder layer, from 1.
        head: The head in it, from 1.
        weight: Factor of its loss.
    """

    layer: int
    head: int
    weight: float


def measure_translation(
    model: EncoderDecoder,
    batch: TranslationBatch,
    *,
    label_smoothing: float,
    guide: AlignmentGuide | None = None,
) -> LossSums:
    """Returns the loss of a batch, summed over its real target tokens.

    With `guide`, the cross entropy of the head's weights against the batch's links is added.
    """
    watched = None if guide is None else WatchedHead(guide.layer, guide.head)
    states = model(
        batch.source_tokens, batch.source_layout, batch.target_inputs, batch.target_layout, watched
    )
    states = batch.target_layout.select_tokens(states)
    smoothing, is_filled, targets = label_smoothing, batch.is_filled, batch.target_outputs
    sums = output_cross_entropy(
        model, states, targets, label_smoothing=smoothing, has_padding=is_filled
    )
    if guide is None or watched is None:
        return sums
    assert batch.links is not None, "links"
    log_weights = watched.find_log_weights(batch.target_layout, batch.source_layout)
    of_links = log_weights.index_select(0, batch.links.cells)
    # Each target token's alignment is a distribution over its source tokens.
    surprise = -(of_links / batch.links.num_sources).sum()
    return sums._replace(loss=sums.loss + guide.weight * surprise)


def measure_joined(
    model: CausalLanguageModel, batch: JoinedBatch, *, label_smoothing: float
) -> LossSums:
    """Returns the loss of a decoder-only translator, summed over a batch's target tokens."""
    states = select_predicting(model(batch.inputs, batch.layout), batch)
    return output_cross_entropy(model, states, batch.outputs, label_smoothing=label_smoothing)


def measure_causal(
    model: CausalLanguageModel, batch: TextBatch, *, label_smoothing: float
) -> LossSums:
    """Returns the loss of a batch, summed over its tokens."""
    states = batch.layout.select_tokens(model(batch.inputs, batch.layout))
    return output_cross_entropy(model, states, batch.outputs, label_smoothing=label_smoothing)


def measure_masked(
    model: MaskedLanguageModel, batch: MaskedBatch, *, label_smoothing: float
) -> LossSums:
    """Returns the loss of a batch: one sum over its hidden tokens, one over its pairs."""
    states = model(batch.inputs, batch.segments, batch.layout)
    return measure_encoded(model, states, batch, label_smoothing=label_smoothing)


def measure_encoded(
    model: MaskedLanguageModel, states: Tensor, batch: MaskedBatch, *, label_smoothing: float
) -> LossSums:
    """Returns `measure_masked` of a batch that the model has already encoded."""
    hidden = model.masked_head(select_predicting(states, batch))
    sums = output_cross_entropy(model, hidden, batch.outputs, label_smoothing=label_smoothing)
    if batch.is_random is None:
        return sums
    logits = model.classify_pair(states, batch.layout)
    pairs = measure_label_loss(logits, batch.is_random, label_smoothing=0.0)
    return sums._replace(example_loss=pairs.loss)


def select_predicting(states: Tensor, batch: MaskedBatch | JoinedBatch) -> Tensor:
    """Returns the states that predict a token, [predicted, d_model]."""
    return batch.layout.select_tokens(states)[batch.indices]


Classifier = MaskedClassifier | CausalClassifier


def encode_and_classify(model: Classifier, batch: ExampleBatch) -> tuple[Tensor, Tensor]:
    """Returns the states of a batch's tokens, and the logits of the labels, [texts, labels]."""
    if isinstance(model, CausalClassifier):
        states = model(batch.inputs, batch.layout)
        return states, model.classify(states, batch.layout, batch.last)
    states = model(batch.inputs, batch.segments, batch.layout)
    return states, model.classify(states, batch.layout)


def measure_label_loss(logits: Tensor, labels: Tensor, *, label_smoothing: float) -> LossSums:
    """Returns the cross entropy of labels, summed over the texts, in at least fp32."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    find = partial(nn.functional.cross_entropy, logits, labels, reduction="sum")
    nll = find()
    return LossSums(find(label_smoothing=label_smoothing) if label_smoothing else nll, nll.detach())


def measure_classification(
    model: Classifier, batch: ExampleBatch, *, label_smoothing: float, auxiliary: float
) -> LossSums:
    """Returns the loss of a batch.

    Without an auxiliary loss it is summed over the texts. With one, the first sums are the language
    model's over the predicted tokens, all except `<s>`, and the label loss is a separate sum: the
    mean of either counts (Radford et al. 2018, section 3.2).

    Args:
        model: The classifier.
        batch: Texts.
        label_smoothing: For labels and tokens.
        auxiliary: Weight of the language model's loss, lambda.
    """
    states, logits = encode_and_classify(model, batch)
    of_labels = measure_label_loss(logits, batch.labels, label_smoothing=label_smoothing)
    if not auxiliary or not isinstance(model, CausalClassifier):
        return of_labels
    predicts = torch.ones_like(batch.tokens, dtype=torch.bool)
    predicts[batch.last] = False
    states, targets = batch.layout.select_tokens(states)[predicts], batch.tokens.roll(-1)[predicts]
    sums = output_cross_entropy(model, states, targets, label_smoothing=label_smoothing)
    return LossSums(auxiliary * sums.loss, sums.negative_log_likelihood, of_labels.loss)
