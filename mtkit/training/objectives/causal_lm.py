"""A causal language model's objective: each token of a text, given those before it (GPT)."""

from collections.abc import Sequence

import numpy as np
import torch

from mtkit.data.batches.collate import TextBatch, collate_text
from mtkit.data.batches.epoch import plan_epoch
from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.batches.updates import TrainingBatches
from mtkit.data.prepared import PreparedData
from mtkit.network import CausalLanguageModel
from mtkit.recipe import Recipe
from mtkit.text.token_ids import UNK
from mtkit.training.distributed import Processes
from mtkit.training.learner import Learner
from mtkit.training.loss import LossSums
from mtkit.training.objectives.passes import Passes
from mtkit.training.text_loss import measure_causal
from mtkit.training.validation import ModelValidator, ValidationResult


class CausalBatches(TrainingBatches[TextBatch]):
    """Blocks of text in updates that several processes share.

    Every token of a block is predicted, `</s>` too; the first one from `<s>` alone. `dtype` is what
    passes are computed in. With `packs` batches are packed; all processes must do the same.
    """

    def __init__(
        self,
        data: PreparedData,
        recipe: Recipe,
        processes: Processes,
        *,
        dtype: torch.dtype,
        packs: bool,
    ) -> None:
        super().__init__(rank=processes.rank, num_processes=processes.count)
        self._data = data
        self._recipe = recipe
        self._device = processes.device
        self._passes = Passes.of(recipe.model.d_model, self._device, dtype=dtype, packs=packs)

    @property
    def longest(self) -> int:
        """The bound that blocks keep: `data.block_tokens`."""
        return self._recipe.data.block_tokens

    def plan_epoch(self, epoch: int) -> Sequence[Indices]:
        """Returns the blocks of each update of an epoch."""
        return plan_epoch(
            self._data.train_order,
            weights=self._data.weights,
            batch_tokens=self._recipe.training.batch_tokens,
            length_groups=self._recipe.training.length_groups,
            seed=self._recipe.seed,
            epoch=epoch,
        )

    def lengths(self, examples: Indices) -> dict[str, Indices]:
        """Returns the tokens of blocks, `</s>` counted."""
        return self._data.train.lengths(examples)

    def split(self, examples: Indices, num_processes: int, limit: int) -> list[list[MicroBatch]]:
        """Returns each process's micro-batches of one update, within the limit of a pass."""
        lengths = self.lengths(examples)["text"]
        return self._passes.split(
            examples,
            np.zeros_like(lengths),
            lengths,
            num_processes=num_processes,
            limit=limit,
        )

    def count_target_tokens(self, examples: Indices, epoch: int) -> int:
        """Returns the tokens of these blocks, `</s>` counted."""
        return int(self.lengths(examples)["text"].sum())

    def gather(self, micro_batch: MicroBatch, epoch: int) -> TextBatch:
        """Returns a micro-batch on the device."""
        text = self._data.train.gather(micro_batch.sentences)["text"]
        return self._collate(text, micro_batch.grid_sizes, micro_batch.row_step)

    def largest(self, limit: int) -> TextBatch:
        """Returns a made-up batch: as many of the longest blocks as the limit of a pass lets."""
        longest = int(self._data.train_order.strata["text_length"].max())
        count = max(1, limit // longest)
        text = Ragged(np.full(count * longest, UNK), np.full(count, longest))
        return self._collate(text, (), self._passes.row_step)

    def _collate(self, text: Ragged, grid_sizes: tuple[int, ...], row_step: int) -> TextBatch:
        layout = self._passes.lay_out(text.lengths, grid_sizes, row_step)
        return collate_text(text, layout).to(self._device)


class CausalObjective:
    """Cross entropy of each token, given those before it in its block."""

    def __init__(
        self,
        learner: Learner[CausalLanguageModel],
        batches: CausalBatches,
        validator: ModelValidator[CausalLanguageModel],
        *,
        label_smoothing: float,
    ) -> None:
        self.batches = batches
        self._model = learner.model
        self._working_model = learner.working.model
        self._validator = validator
        self._label_smoothing = label_smoothing

    def loss(self, batch: TextBatch) -> LossSums:
        """Returns the loss of a batch, summed over its tokens."""
        return measure_causal(self._working_model, batch, label_smoothing=self._label_smoothing)

    def validate(self) -> ValidationResult:
        """Returns the network's loss on the development set."""
        return self._validator.validate(self._model)
