"""A classifier's objective: the label of a text, or of a pair of texts (BERT, GPT)."""

import numpy as np
import torch

from mtkit.data.batches.examples import ExampleBatch, add_begin, collate_examples, find_closing
from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.prepared import PreparedData
from mtkit.recipe import Recipe
from mtkit.text.token_ids import EOS, UNK
from mtkit.training.distributed import Processes
from mtkit.training.objectives.stored import StoredBatches


def has_auxiliary_loss(recipe: Recipe) -> bool:
    """Returns whether a classifier goes on learning as a language model."""
    return recipe.classification.kind == "causal-lm" and recipe.classification.auxiliary > 0.0


class LabelledBatches(StoredBatches[ExampleBatch]):
    """Labelled texts in updates that several processes share."""

    def __init__(
        self,
        data: PreparedData,
        recipe: Recipe,
        processes: Processes,
        *,
        dtype: torch.dtype,
        packs: bool,
    ) -> None:
        super().__init__(data, recipe, processes, dtype=dtype, packs=packs)
        assert data.train_labels is not None, "labels"
        self._labels = data.train_labels
        self._closing = find_closing(data.tokenizer, recipe.classification.kind)
        self._counts_tokens = has_auxiliary_loss(recipe)

    def split(self, examples: Indices, num_processes: int, limit: int) -> list[list[MicroBatch]]:
        """Returns each process's micro-batches of one update, within the limit of a pass."""
        lengths = self.lengths(examples)["text"] + 1
        return self._passes.split_side(examples, lengths, num_processes=num_processes, limit=limit)

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
