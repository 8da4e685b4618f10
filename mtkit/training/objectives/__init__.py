"""Losses that training minimises, with their batches and validation, behind a Protocol."""

from typing import Protocol, TypeVar

from mtkit.data.batches.updates import TrainingBatches
from mtkit.training.loss import LossSums
from mtkit.training.validation import ValidationResult

Batch = TypeVar("Batch")


class Objective(Protocol[Batch]):
    """Batches to learn from, their loss, and what the model is worth on the development set.

    Another objective is a file here with a subclass of `StoredBatches`, a loss of one batch, and a
    line in `build_objective` and `build_validator` (training/build.py). It needs a network and a
    line in `mtkit.model.build`. The loss is a sum over tokens, beside which another may be a sum
    over examples.
    """

    @property
    def batches(self) -> TrainingBatches[Batch]:
        """The updates' batches."""
        ...

    def loss(self, batch: Batch) -> LossSums:
        """Returns the loss of one batch, summed, ready for `backward`."""
        ...

    def validate(self) -> ValidationResult:
        """Returns what the model is worth; every process must call it."""
        ...
