"""Losses that training minimises, with their batches and validation, behind a Protocol.

translation.py    label-smoothed cross entropy of the target, given the source
"""

from typing import Protocol, TypeVar

from mtkit.data.batches.updates import TrainingBatches
from mtkit.training.loss import LossSums
from mtkit.training.validation import ValidationResult

Batch = TypeVar("Batch")


class Objective(Protocol[Batch]):
    """Batches to learn from, their loss, and what the model is worth on the development set.

    Another objective, a language model's say, is a file here and a line in `build_objective`
    (training/build.py). It needs a network and its line in `build_learner`, a subclass of
    `TrainingBatches` over a store of its own, a loss that is a sum over tokens, and a score of its
    own whose name isn't that of a loss.
    """

    @property
    def batches(self) -> TrainingBatches[Batch]:
        """The updates' batches."""
        ...

    def loss(self, batch: Batch) -> LossSums:
        """Returns the loss of one batch, summed over its tokens, ready for `backward`."""
        ...

    def validate(self) -> ValidationResult:
        """Returns what the model is worth; every process must call it."""
        ...
