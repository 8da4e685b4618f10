"""Classifiers on the development set: loss, accuracy, macro-F1; a few texts to read."""

import numpy as np
import torch

from mtkit.data.batches.examples import collate_together, find_closing
from mtkit.data.batches.micro_batches import cut
from mtkit.data.prepared import PreparedData
from mtkit.evaluation.labels import measure_labels as score_labels
from mtkit.recipe import Recipe
from mtkit.training.distributed import Processes
from mtkit.training.label_loss import Classifier, encode_and_classify, measure_labels
from mtkit.training.text_validation import inferring, spread
from mtkit.training.validation import LOSS_TOKENS, SampleText, ValidationResult, perplexity_of


class LabelValidator:
    """Measures a classifier; texts are shared out among the processes."""

    def __init__(self, recipe: Recipe, data: PreparedData, processes: Processes) -> None:
        assert data.dev_labels is not None, "labels"
        self._recipe = recipe
        self._store = data.dev
        self._labels = data.dev_labels
        self._names = data.labels
        self._lines, _ = data.dev_text
        self._closing = find_closing(data.tokenizer, recipe.classification.kind)
        self._processes = processes

    def validate(self, model: Classifier) -> ValidationResult:
        """Returns the classifier's loss and scores; every process must call it."""
        with inferring(model):
            loss, nll, found = self._measure(model)
        given = [self._names[number] for number in found.tolist()]
        wanted = [self._names[number] for number in self._labels.tolist()]
        accuracy, macro_f1 = score_labels(given, wanted, self._names)
        metrics = {
            "loss": loss,
            "nll": nll,
            "perplexity": perplexity_of(nll),
            "accuracy": accuracy.value,
            "macro_f1": macro_f1.value,
        }
        metric = self._recipe.training.validation.metric
        rows = spread(range(len(given)), self._recipe.training.validation.num_samples)
        samples = [
            SampleText({"text": self._lines[row], "label": wanted[row], "found": given[row]})
            for row in rows
        ]
        return ValidationResult(-loss if metric == "loss" else metrics[metric], metrics, samples)

    def _measure(self, model: Classifier) -> tuple[float, float, torch.Tensor]:
        """Returns loss and negative log-likelihood per text, and the label that each is given."""
        lengths = self._store.lengths(np.arange(len(self._store)))["text"] + 1
        order = np.argsort(lengths, kind="stable")
        batches = cut(order, np.zeros_like(lengths), lengths, max_tokens=LOSS_TOKENS)
        sums = torch.zeros(2, dtype=torch.float64)
        # Labels that other processes find stay 0 here, and are added.
        found = torch.zeros(len(self._store), dtype=torch.float64)
        for rows in self._processes.shard(batches):
            self._processes.progress.beat()
            tokens = self._store.gather(rows)["text"]
            batch = collate_together(tokens, self._labels[rows], self._closing)
            batch = batch.to(self._processes.device)
            _, logits = encode_and_classify(model, batch)
            smoothing = self._recipe.training.label_smoothing
            measured = measure_labels(logits, batch.labels, label_smoothing=smoothing)
            losses = torch.stack((measured.loss, measured.negative_log_likelihood))
            sums += losses.to("cpu", torch.float64)
            found[rows] = logits.argmax(dim=-1).to("cpu", torch.float64)
        device = self._processes.device
        totals = self._processes.sum(torch.cat((sums, found)).to(device)).cpu()
        count = len(self._store)
        return float(totals[0]) / count, float(totals[1]) / count, totals[2:].to(torch.int64)
