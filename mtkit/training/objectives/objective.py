"""The objective of every kind of training: batches, a loss of one batch, and a validator.

Another objective is a file here with a subclass of `StoredBatches`, which reads and collates
examples; a loss of one batch; and a line of both in `_choose` (training/build.py). It needs a
network and a line in `mtkit.model.build`.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from mtkit.data.batches.collate import TranslationBatch
from mtkit.data.batches.updates import Batch, TrainingBatches
from mtkit.training.graphs import RecordedPasses
from mtkit.training.learner import Learner
from mtkit.training.loss import LossSums
from mtkit.training.validation import ModelValidator, ValidationResult

Model = TypeVar("Model", bound=nn.Module)


class Objective(Generic[Model, Batch]):
    """The sum of a loss over tokens, beside which another may be a sum over examples.

    Args:
        learner: The model that learns.
        batches: What it learns from.
        validator: What measures it on the development set.
        measure: Returns the loss of one batch, summed.
    """

    def __init__(
        self,
        learner: Learner[Model],
        batches: TrainingBatches[Batch],
        validator: ModelValidator[Model],
        measure: Callable[[Model, Batch], LossSums],
    ) -> None:
        self.batches = batches
        self._model = learner.model
        self._working_model = learner.working.model
        self._validator = validator
        self._measure = measure
        self._recorded: RecordedPasses | None = None

    def loss(self, batch: Batch) -> LossSums:
        """Returns the loss of one batch, summed, ready for `backward`."""
        return self._measure(self._working_model, batch)

    def learn(
        self, batch: Batch, *, num_target_tokens: int, num_examples: int, records: bool = True
    ) -> Tensor:
        """Adds the gradients of a batch, and returns its loss and negative log-likelihood, summed.

        Args:
            batch: The batch.
            num_target_tokens: Of the update, in all processes, of whose mean the gradients are.
            num_examples: Likewise.
            records: Whether a filled batch's pass may be recorded.
        """
        if records and isinstance(batch, TranslationBatch) and batch.is_filled:
            if self._recorded is None:
                self._recorded = RecordedPasses(self._working_model, self._run_scaled)
            return self._recorded.run(batch, 1.0 / num_target_tokens)
        found = self.loss(batch)
        loss = found.join(num_target_tokens, num_examples)
        # Divided before: the sum over micro-batches and processes is then the mean per token.
        (loss / num_target_tokens).backward()  # type: ignore[no-untyped-call]
        return torch.stack((loss.detach(), found.negative_log_likelihood))

    def _run_scaled(self, batch: Any, scale: Tensor) -> Tensor:
        found = self.loss(batch)
        (found.loss * scale).backward()  # type: ignore[no-untyped-call]
        return torch.stack((found.loss.detach(), found.negative_log_likelihood))

    def validate(self) -> ValidationResult:
        """Returns what the model is worth; every process must call it."""
        return self._validator.validate(self._model)
