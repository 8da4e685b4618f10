"""Losses that training minimises, with their batches and validation, behind a Protocol.

measured.py       the one class of objective: batches, the loss of one, a validator
stored.py         the batches of all of them, but for how examples are read and collated
translation.py    label-smoothed cross entropy of the target, given the source
decoder_only.py   the same, by a decoder that reads source and target as one text
causal_lm.py      cross entropy of each token of a text, given those before it
masked_lm.py      cross entropy of hidden tokens, given all others; whether a segment follows
denoising.py      batches for a translator's loss: a text, given it with hidden spans
classification.py  cross entropy of a text's label, given the text
passes.py         how updates are cut into passes, whatever is learned
"""

from typing import Protocol, TypeVar

from mtkit.data.batches.updates import TrainingBatches
from mtkit.training.loss import LossSums
from mtkit.training.validation import ValidationResult

Batch = TypeVar("Batch")


class Objective(Protocol[Batch]):
    """Batches to learn from, their loss, and what the model is worth on the development set.

    Another objective is a file here with a subclass of `StoredBatches`, which reads and collates
    examples; a loss of one batch; and a line of both in `_choose` (training/build.py). It needs a
    network and a line in `mtkit.model.build`. The loss is a sum over tokens, beside which another
    may be a sum over examples.
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
