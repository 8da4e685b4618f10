"""The loss of a batch of each kind: a forward pass, then label-smoothed cross entropy."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

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
from mtkit.training.cross_entropy import ProjectedCrossEntropy

TranslatingModel = EncoderDecoder | CausalLanguageModel
GeneratingModel = TranslatingModel | MaskedLanguageModel | CausalClassifier

_WIDTH_STEP = 8


class LossSums(NamedTuple):
    """Sums over a batch, in nats, over its real target tokens.

    Attributes:
        loss: Label-smoothed cross entropy, which is minimised.
        negative_log_likelihood: Cross entropy against the reference alone, for perplexity.
        example_loss: Another loss, summed over the batch's examples. Its mean over an update's
            examples is minimised together with the mean of `loss`.
        divergence: The part of `loss` that R-Drop adds.
    """

    loss: Tensor
    negative_log_likelihood: Tensor
    example_loss: Tensor | None = None
    divergence: Tensor | None = None

    def join(self, num_target_tokens: int, num_examples: int) -> Tensor:
        """Returns one sum whose mean over an update's target tokens is the sum of both means.

        Both counts are of the update on all ranks.
        """
        if self.example_loss is None:
            return self.loss
        return self.loss + self.example_loss * (num_target_tokens / num_examples)

    def report(self, joined: Tensor) -> Tensor:
        """Returns [`join`'s sum minus the divergence, negative log-likelihood, divergence]."""
        loss = joined.detach()
        divergence = torch.zeros_like(loss) if self.divergence is None else self.divergence
        return torch.stack((loss - divergence, self.negative_log_likelihood, divergence))


def output_cross_entropy(
    model: GeneratingModel,
    states: Float[Tensor, "tokens d_model"],
    targets: Int[Tensor, "tokens"],
    *,
    label_smoothing: float,
    has_padding: bool = False,
    divergence_weight: float = 0.0,
) -> LossSums:
    """Returns `projected_cross_entropy` of a model's logits, with each piece's bias, if any.

    With `has_padding`, targets that are padding don't count in the sums.
    """
    weight: Tensor = model.output_embedding.weight
    bias = model.output_bias
    if bias is not None:
        states, weight = _append_bias(states, weight, bias)
    measure = partial(
        projected_cross_entropy,
        label_smoothing=label_smoothing,
        divergence_weight=divergence_weight,
    )
    if not has_padding:
        return measure(states, weight, targets)
    # All logits of a zero state are 0: each such target costs log(pieces) and has no gradient.
    is_padding = targets == PAD
    kept = states.masked_fill(is_padding[:, None], 0.0)
    sums = measure(kept, weight, targets)
    zeros_1V = weight.new_zeros(1, len(weight)).detach()
    each = -torch.softmax(zeros_1V, dim=1)[0, 0].to(sums.loss.dtype).log()
    surplus = each * is_padding.sum()
    nll = sums.negative_log_likelihood - surplus
    return sums._replace(loss=sums.loss - surplus, negative_log_likelihood=nll)


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
    divergence_weight: float = 0.0,
) -> LossSums:
    """Returns the loss of predicting each target from its state.

    The reference distribution is 1 - label_smoothing on the target plus label_smoothing spread
    evenly over the whole vocabulary, target included (arXiv 1512.00567, section 7; arXiv
    1706.03762, section 5.4). Products are in the states' precision, sums in at least fp32. `states`
    are of real tokens only.

    With `divergence_weight`, states 2i and 2i + 1 are of the same token, and their predictions'
    KL(P1 || P2) + KL(P2 || P1), times that weight, is added to the loss.
    """
    loss, nll, divergence = ProjectedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        states, output_weight, targets, label_smoothing, divergence_weight, torch.is_grad_enabled()
    )
    return LossSums(loss, nll, divergence=divergence if divergence_weight else None)


def _measure_output(
    model: TranslatingModel,
    run: Callable[[], Tensor],
    targets: Tensor,
    *,
    label_smoothing: float,
    has_padding: bool = False,
    r_drop: float | None = None,
) -> LossSums:
    """Returns the loss of predicting each target from the states that a forward pass returns.

    With `r_drop` the pass runs twice, with other dropout masks. Per token the loss is then
    (CE1 + CE2) / 2 + r_drop / 4 * (KL(P1 || P2) + KL(P2 || P1)): half of the paper's with
    alpha = `r_drop` (arXiv 2106.14448, section 2.1), so that without dropout it is the loss of one
    pass.
    """
    measure = partial(
        output_cross_entropy, model, label_smoothing=label_smoothing, has_padding=has_padding
    )
    if r_drop is None:
        return measure(run(), targets)
    pairs = torch.stack((run(), run()), dim=1).flatten(0, 1)
    twice = torch.stack((targets, targets), dim=1).flatten()
    sums = measure(pairs, twice, divergence_weight=r_drop / 2)
    assert sums.divergence is not None, "a weight"
    return LossSums(sums.loss / 2, sums.negative_log_likelihood / 2, divergence=sums.divergence / 2)


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
    r_drop: float | None = None,
) -> LossSums:
    """Returns the loss of a batch, summed over its real target tokens.

    With `guide`, the cross entropy of the head's weights against the batch's links is added, with
    `r_drop` too the mean of both passes'.
    """
    source, target = batch.source_layout, batch.target_layout
    heads: list[WatchedHead] = []

    def run() -> Tensor:
        heads.extend([] if guide is None else [WatchedHead(guide.layer, guide.head)])
        watched = heads[-1] if heads else None
        states = model(batch.source_tokens, source, batch.target_inputs, target, watched)
        return target.select_tokens(states)

    sums = _measure_output(
        model,
        run,
        batch.target_outputs,
        label_smoothing=label_smoothing,
        has_padding=batch.is_filled,
        r_drop=r_drop,
    )
    if guide is None:
        return sums
    assert batch.links is not None, "links"
    cells = batch.links.cells
    of_each = [head.find_log_weights(target, source).index_select(0, cells) for head in heads]
    of_links = torch.stack(of_each).mean(dim=0)
    # Each target token's alignment is a distribution over its source tokens.
    surprise = -(of_links / batch.links.num_sources).sum()
    return sums._replace(loss=sums.loss + guide.weight * surprise)


def measure_joined(
    model: CausalLanguageModel,
    batch: JoinedBatch,
    *,
    label_smoothing: float,
    r_drop: float | None = None,
) -> LossSums:
    """Returns the loss of a decoder-only translator, summed over a batch's target tokens."""
    return _measure_output(
        model,
        lambda: select_predicting(model(batch.inputs, batch.layout), batch),
        batch.outputs,
        label_smoothing=label_smoothing,
        r_drop=r_drop,
    )


def measure_causal(
    model: CausalLanguageModel,
    batch: TextBatch,
    *,
    label_smoothing: float,
    r_drop: float | None = None,
) -> LossSums:
    """Returns the loss of a batch, summed over its tokens."""
    return _measure_output(
        model,
        lambda: batch.layout.select_tokens(model(batch.inputs, batch.layout)),
        batch.outputs,
        label_smoothing=label_smoothing,
        r_drop=r_drop,
    )


def measure_masked(
    model: MaskedLanguageModel, batch: MaskedBatch, *, label_smoothing: float
) -> LossSums:
    """Returns the loss of a batch: one sum over its masked tokens, one over its pairs."""
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
    model's over the predicted tokens, all except `<s>`, and the label loss is a separate sum:
    each is averaged on its own (Radford et al. 2018, section 3.2).

    Args:
        model: The classifier.
        batch: Texts.
        label_smoothing: For labels and tokens.
        auxiliary: Weight of the language model's loss, lambda.
    """
    states, logits = model.label(batch.inputs, batch.segments, batch.layout, batch.last)
    of_labels = measure_label_loss(logits, batch.labels, label_smoothing=label_smoothing)
    if not auxiliary or not isinstance(model, CausalClassifier):
        return of_labels
    predicts = torch.ones_like(batch.tokens, dtype=torch.bool)
    predicts[batch.last] = False
    states, targets = batch.layout.select_tokens(states)[predicts], batch.tokens.roll(-1)[predicts]
    sums = output_cross_entropy(model, states, targets, label_smoothing=label_smoothing)
    return LossSums(auxiliary * sums.loss, sums.negative_log_likelihood, of_labels.loss)
