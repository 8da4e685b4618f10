"""The common part of all validators: rows split over ranks, sums, a few sample texts."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from mtkit.data.batches.micro_batches import cut_micro_batches
from mtkit.data.batches.ragged import Indices
from mtkit.inference.engines.torch_engine import evaluating
from mtkit.training.distributed import ProcessGroup
from mtkit.training.loss import LossSums
from mtkit.training.metrics import LOSSES, restore_sign
from mtkit.training.training_run import TrainingRun
from mtkit.units import spread_items

LOSS_TOKENS = 4_096
"""Tokens per side, without padding, in one pass; validation keeps nothing for a backward pass."""
_MAX_NLL = 700.0
"""The exponential of a larger one overflows."""

Network = TypeVar("Network", bound=nn.Module)
Sample = Mapping[str, str]
"""A development sentence and the model's output, under names of at most ten letters."""


@dataclass(frozen=True)
class ValidationResult:
    """Loss and scores on the development set.

    Attributes:
        score: What ranks checkpoints; higher is better.
        metrics: `loss` and `nll` in nats per target token, `perplexity`, and any number of scores:
            `bleu` and `chrf` for a translator, `f1` and `exact_match` for a parser, accuracies in
            percent for a masked language model.
        samples: A few sentences to read.
    """

    score: float
    metrics: dict[str, float]
    samples: Sequence[Sample]

    @property
    def scores(self) -> dict[str, float]:
        """The metrics that are scores."""
        return {name: value for name, value in self.metrics.items() if name not in LOSSES}


class ModelValidator(ABC, Generic[Network]):
    """Measures networks of one kind on the development set, whose rows the ranks share."""

    def __init__(self, run: TrainingRun, processes: ProcessGroup) -> None:
        self._recipe, self._data = run.recipe, run.data
        self._processes = processes
        self._settings = run.recipe.training.validation
        self._label_smoothing = run.recipe.training.label_smoothing
        self._prepare()

    def _prepare(self) -> None:
        """Raises the errors of the first validation before the first update."""

    def validate(self, model: Network) -> ValidationResult:
        """Returns a network's loss and scores; every rank must call it."""
        with evaluating([model]):
            metrics, samples = self._measure(model)
        metric = self._settings.score_name
        return ValidationResult(restore_sign(metric, metrics[metric]), metrics, samples)

    def estimate_seconds(self, model: Network) -> float:
        """Returns the seconds that a validation takes this process."""
        began_at = time.monotonic()
        self.validate(model)
        return time.monotonic() - began_at

    @abstractmethod
    def _measure(self, model: Network) -> tuple[dict[str, float], Sequence[Sample]]:
        """Returns metrics and a few sentences; the model is in evaluation mode."""

    def _add_up(
        self,
        sides: Sequence[Indices],
        measure: Callable[[Indices], Sequence[Tensor]],
        *,
        count: int,
    ) -> list[float]:
        """Returns the sums of a measurement over all rows, in small batches, on all ranks."""
        # `sides` has the tokens of each row: of one side, or of source and target. `measure`
        # returns `count` numbers for some rows.
        *sources, target_lengths = sides
        source_lengths = sources[0] if sources else np.zeros_like(target_lengths)
        order = np.lexsort((source_lengths, target_lengths))
        batches = cut_micro_batches(order, source_lengths, target_lengths, max_tokens=LOSS_TOKENS)
        sums = torch.zeros(count, dtype=torch.float64)
        for rows in self._processes.shard(batches):
            self._processes.progress.beat()
            sums += torch.stack([value.to("cpu", torch.float64) for value in measure(rows)])
        totals: list[float] = self._processes.sum(sums.to(self._processes.device)).tolist()
        return totals

    def _sample_columns(self, **columns: Sequence[str]) -> list[Sample]:
        """Returns a few rows of some columns, each value under its column's name."""
        rows = spread_items(list(zip(*columns.values(), strict=True)), self._settings.num_samples)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def _lengths(self, column: str = "text") -> Indices:
        """Returns the tokens of each row in a column."""
        return self._data.dev.lengths(np.arange(len(self._data.dev)))[column]


def list_losses(sums: LossSums) -> list[Tensor]:
    """Returns loss and negative log-likelihood."""
    return [sums.loss, sums.negative_log_likelihood]


def name_losses(loss: float, nll: float) -> dict[str, float]:
    """Returns the metrics of every validation, from its means in nats."""
    perplexity = math.exp(nll) if nll < _MAX_NLL else math.inf
    return {"loss": loss, "nll": nll, "perplexity": perplexity}
