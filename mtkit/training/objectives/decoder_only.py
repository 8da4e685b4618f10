"""A decoder-only translator's objective: the target, behind its source in one text."""

import numpy as np

from mtkit.data.batches.collate import JoinedBatch, collate_joined
from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.network import CausalLanguageModel
from mtkit.training.learner import Learner
from mtkit.training.loss import LossSums
from mtkit.training.objectives.translation import PairBatches
from mtkit.training.translation_loss import measure_joined
from mtkit.training.validation import ModelValidator, ValidationResult


class JoinedBatches(PairBatches[JoinedBatch]):
    """Sentence pairs as texts, in the updates that an encoder-decoder would make of them.

    The limit of a pass bounds the tokens of a side, so that a text has room for both.
    """

    def _split(
        self,
        examples: Indices,
        source_lengths: Indices,
        target_lengths: Indices,
        *,
        num_processes: int,
        limit: int,
    ) -> list[list[MicroBatch]]:
        return self._passes.split(
            examples,
            np.zeros_like(source_lengths),
            source_lengths + target_lengths,
            num_processes=num_processes,
            limit=2 * limit,
        )

    def _collate(
        self, source: Ragged, target: Ragged, grid_sizes: tuple[int, ...], row_step: int
    ) -> JoinedBatch:
        lengths = source.lengths + target.lengths
        layout = self._passes.lay_out(lengths, grid_sizes, row_step)
        return collate_joined(source, target, layout).to(self._device)


class DecoderOnlyObjective:
    """Label-smoothed cross entropy of the target, given the source before it."""

    def __init__(
        self,
        learner: Learner[CausalLanguageModel],
        batches: JoinedBatches,
        validator: ModelValidator[CausalLanguageModel],
        *,
        label_smoothing: float,
    ) -> None:
        self.batches = batches
        self._model = learner.model
        self._working_model = learner.working.model
        self._validator = validator
        self._label_smoothing = label_smoothing

    def loss(self, batch: JoinedBatch) -> LossSums:
        """Returns the loss of a batch, summed over its target tokens."""
        return measure_joined(self._working_model, batch, label_smoothing=self._label_smoothing)

    def validate(self) -> ValidationResult:
        """Returns the network's loss and scores on the development set."""
        return self._validator.validate(self._model)
