"""The loss of labelled texts: that of labels, and beside it a causal language model's own."""

import torch
from torch import Tensor, nn

from mtkit.data.batches.examples import ExampleBatch
from mtkit.network import CausalClassifier, MaskedClassifier
from mtkit.training.loss import LossSums, output_cross_entropy

Classifier = MaskedClassifier | CausalClassifier


def encode_and_classify(model: Classifier, batch: ExampleBatch) -> tuple[Tensor, Tensor]:
    """Returns the states of a batch's tokens, and the logits of the labels, [texts, labels]."""
    if isinstance(model, CausalClassifier):
        states = model(batch.inputs, batch.layout)
        return states, model.classify(states, batch.layout, batch.last)
    states = model(batch.inputs, batch.segments, batch.layout)
    return states, model.classify(states, batch.layout)


def measure_labels(logits: Tensor, labels: Tensor, *, label_smoothing: float) -> LossSums:
    """Returns the cross entropy of labels, summed over the texts, in fp32 at least."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    nll = nn.functional.cross_entropy(logits, labels, reduction="sum")
    if not label_smoothing:
        return LossSums(nll, nll.detach())
    loss = nn.functional.cross_entropy(
        logits, labels, reduction="sum", label_smoothing=label_smoothing
    )
    return LossSums(loss, nll.detach())


def measure_classification(
    model: Classifier, batch: ExampleBatch, *, label_smoothing: float, auxiliary: float
) -> LossSums:
    """Returns the loss of a batch.

    Without an auxiliary loss it is summed over the texts. With one the first sums are the language
    model's, over the tokens that are predicted, all but `<s>`, and that of labels goes beside them:
    the mean of either counts (Radford et al. 2018, section 3.2).

    Args:
        model: The classifier.
        batch: Texts.
        label_smoothing: Of labels and tokens alike.
        auxiliary: Weight of the language model's loss, lambda.
    """
    states, logits = encode_and_classify(model, batch)
    of_labels = measure_labels(logits, batch.labels, label_smoothing=label_smoothing)
    if not auxiliary or not isinstance(model, CausalClassifier):
        return of_labels
    predicts = torch.ones_like(batch.tokens, dtype=torch.bool)
    predicts[batch.last] = False
    sums = output_cross_entropy(
        model,
        batch.layout.select_tokens(states)[predicts],
        batch.tokens.roll(-1)[predicts],
        label_smoothing=label_smoothing,
    )
    return LossSums(auxiliary * sums.loss, sums.negative_log_likelihood, of_labels.loss)
