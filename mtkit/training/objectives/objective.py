"""The objective of every kind of training: batches, a loss of one batch, and a validator.

Another objective is a file here with a subclass of `StoredBatches`, which reads and collates
examples; a loss of one batch; and a line of both in `_choose` (training/build.py). It needs a
network and a line in `mtkit.model.build`.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from torch import nn

from mtkit.data.batches.updates import Batch, TrainingBatches
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

    def loss(self, batch: Batch) -> LossSums:
        """Returns the loss of one batch, summed, ready for `backward`."""
        return self._measure(self._working_model, batch)

    def validate(self) -> ValidationResult:
        """Returns what the model is worth; every process must call it."""
        return self._validator.validate(self._model)
