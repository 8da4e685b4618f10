"""Classifiers on the development set: loss, accuracy, macro-F1; a few texts to read."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mtkit.data.batches.examples import collate_together, find_closing
from mtkit.data.batches.ragged import Indices
from mtkit.evaluation.labels import measure_labels as score_labels
from mtkit.training.label_loss import Classifier, encode_and_classify, measure_labels
from mtkit.training.validation import ModelValidator, Sample, list_losses, name_losses, spread


class LabelValidator(ModelValidator[Classifier]):
    """Measures a classifier."""

    def _prepare(self) -> None:
        find_closing(self._data.tokenizer, self._recipe.classification.kind)

    def _measure(self, model: Classifier) -> tuple[dict[str, float], Sequence[Sample]]:
        data = self._data
        assert data.dev_labels is not None, "labels"
        # Labels that other processes find stay 0 here, and are added.
        found = torch.zeros(len(data.dev), dtype=torch.float64)
        sums = self._add_up(
            [self._lengths() + 1], lambda rows: self._classify(model, rows, found), count=2
        )
        numbers = self._processes.sum(found.to(self._processes.device)).cpu().to(torch.int64)
        given = [data.labels[number] for number in numbers.tolist()]
        wanted = [data.labels[number] for number in data.dev_labels.tolist()]
        accuracy, macro_f1 = score_labels(given, wanted, data.labels)
        scores = {"accuracy": accuracy.value, "macro_f1": macro_f1.value}
        loss, nll = (value / len(data.dev) for value in sums)
        texts = list(zip(data.dev_text[0], wanted, given, strict=True))
        samples = [
            dict(zip(("text", "label", "found"), each, strict=True))
            for each in spread(texts, self._settings.num_samples)
        ]
        return name_losses(loss, nll) | scores, samples

    def _classify(self, model: Classifier, rows: Indices, found: Tensor) -> list[Tensor]:
        """Returns the losses of some texts, and notes the labels that are found."""
        assert self._data.dev_labels is not None, "labels"
        closing = find_closing(self._data.tokenizer, self._recipe.classification.kind)
        tokens = self._data.dev.gather(rows)["text"]
        batch = collate_together(tokens, self._data.dev_labels[rows], closing)
        batch = batch.to(self._processes.device)
        _, logits = encode_and_classify(model, batch)
        found[rows] = logits.argmax(dim=-1).to("cpu", torch.float64)
        smoothing = self._label_smoothing
        return list_losses(measure_labels(logits, batch.labels, label_smoothing=smoothing))
