"""A classifier's objective: the label of a text, or of a pair of texts (BERT, GPT)."""

from collections.abc import Sequence

import numpy as np
import torch

from mtkit.data.batches.epoch import plan_epoch
from mtkit.data.batches.examples import ExampleBatch, add_begin, collate_examples, find_closing
from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.batches.updates import TrainingBatches
from mtkit.data.prepared import PreparedData
from mtkit.recipe import Recipe
from mtkit.text.token_ids import EOS, UNK
from mtkit.training.distributed import Processes
from mtkit.training.label_loss import Classifier, measure_classification
from mtkit.training.learner import Learner
from mtkit.training.loss import LossSums
from mtkit.training.objectives.passes import Passes
from mtkit.training.validation import ModelValidator, ValidationResult


def has_auxiliary_loss(recipe: Recipe) -> bool:
    """Returns whether a classifier goes on learning as a language model."""
    return recipe.classification.kind == "causal-lm" and recipe.classification.auxiliary > 0.0


class LabelledBatches(TrainingBatches[ExampleBatch]):
    """Labelled texts in updates that several processes share.

    `dtype` is what passes are computed in. With `packs` batches are packed; all processes must do
    the same.
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
        assert data.train_labels is not None, "labels"
        self._data = data
        self._labels = data.train_labels
        self._recipe = recipe
        self._device = processes.device
        self._passes = Passes.of(recipe.model.d_model, self._device, dtype=dtype, packs=packs)
        self._closing = find_closing(data.tokenizer, recipe.classification.kind)
        self._counts_tokens = has_auxiliary_loss(recipe)

    @property
    def longest(self) -> int:
        """The bound that inputs keep: `data.block_tokens`."""
        return self._recipe.data.block_tokens

    def plan_epoch(self, epoch: int) -> Sequence[Indices]:
        """Returns the texts of each update of an epoch."""
        return plan_epoch(
            self._data.train_order,
            weights=self._data.weights,
            batch_tokens=self._recipe.training.batch_tokens,
            length_groups=self._recipe.training.length_groups,
            seed=self._recipe.seed,
            epoch=epoch,
        )

    def lengths(self, examples: Indices) -> dict[str, Indices]:
        """Returns the tokens of texts, what closes them counted."""
        return self._data.train.lengths(examples)

    def split(self, examples: Indices, num_processes: int, limit: int) -> list[list[MicroBatch]]:
        """Returns each process's micro-batches of one update, within the limit of a pass."""
        lengths = self.lengths(examples)["text"] + 1
        return self._passes.split(
            examples,
            np.zeros_like(lengths),
            lengths,
            num_processes=num_processes,
            limit=limit,
        )

    def count_target_tokens(self, examples: Indices, epoch: int) -> int:
        """Returns what a mean loss is over: texts, or tokens where the language model learns on."""
        if not self._counts_tokens:
            return len(examples)
        return int(self.lengths(examples)["text"].sum())

    def gather(self, micro_batch: MicroBatch, epoch: int) -> ExampleBatch:
        """Returns a micro-batch on the device."""
        rows = self._data.train.gather(micro_batch.sentences)["text"]
        labels = self._labels[micro_batch.sentences]
        return self._collate(rows, labels, micro_batch.grid_sizes, micro_batch.row_step)

    def largest(self, limit: int) -> ExampleBatch:
        """Returns a made-up batch: as many of the longest texts as the limit of a pass lets."""
        longest = int(self._data.train_order.strata["text_length"].max())
        count = max(1, limit // (longest + 1))
        tokens = np.full((count, longest), UNK)
        tokens[:, -1] = EOS
        rows = Ragged(tokens.ravel(), np.full(count, longest))
        return self._collate(rows, np.zeros(count, np.int64), (), self._passes.row_step)

    def _collate(
        self, rows: Ragged, labels: Indices, grid_sizes: tuple[int, ...], row_step: int
    ) -> ExampleBatch:
        rows = add_begin(rows)
        layout = self._passes.lay_out(rows.lengths, grid_sizes, row_step)
        return collate_examples(rows, labels, layout, closing=self._closing).to(self._device)


class ClassificationObjective:
    """Cross entropy of each text's label and, by option, of the text itself."""

    def __init__(
        self,
        learner: Learner[Classifier],
        batches: LabelledBatches,
        validator: ModelValidator[Classifier],
        recipe: Recipe,
    ) -> None:
        self.batches = batches
        self._model = learner.model
        self._working_model = learner.working.model
        self._validator = validator
        self._label_smoothing = recipe.training.label_smoothing
        self._auxiliary = recipe.classification.auxiliary if has_auxiliary_loss(recipe) else 0.0

    def loss(self, batch: ExampleBatch) -> LossSums:
        """Returns the loss of a batch, summed over its texts or, beside these, its tokens."""
        return measure_classification(
            self._working_model,
            batch,
            label_smoothing=self._label_smoothing,
            auxiliary=self._auxiliary,
        )

    def validate(self) -> ValidationResult:
        """Returns the classifier's loss and scores on the development set."""
        return self._validator.validate(self._model)
