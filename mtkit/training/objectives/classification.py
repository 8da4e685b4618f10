"""A classifier's objective: the label of a text, or of a pair of texts (BERT, GPT)."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from mtkit.data.batches.examples import (
    ClosingTokens,
    ExampleBatch,
    add_begin,
    collate_examples,
    find_closing,
)
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.recipe.training import Classification
from mtkit.text.token_ids import EOS
from mtkit.training.objectives.stored import LayOut, StoredBatches, make_up_side


def find_auxiliary_weight(classification: Classification) -> float:
    """Returns the weight of the loss by which a classifier goes on learning as a language model."""
    return classification.auxiliary if classification.kind == "causal-lm" else 0.0


class LabelledBatches(StoredBatches[tuple[Ragged, Indices], ExampleBatch]):
    """Texts, each with the number of its label."""

    @cached_property
    def _closing(self) -> ClosingTokens | None:
        return find_closing(self._data.tokenizer, self._recipe.classification.kind)

    def bound(self, rows: Indices) -> Sequence[Indices]:
        """Returns the tokens of texts, `<s>` counted."""
        return [self.lengths(rows)["text"] + 1]

    def bound_longest(self) -> int:
        """Returns the tokens of the longest text, `<s>` counted."""
        return super().bound_longest() + 1

    def count_target_tokens(self, examples: Indices, epoch: int) -> int:
        """Returns what a mean loss is over: texts, or tokens where the language model learns on."""
        if not find_auxiliary_weight(self._recipe.classification):
            return len(examples)
        return super().count_target_tokens(examples, epoch)

    def read(self, rows: Indices, epoch: int) -> tuple[Ragged, Indices]:
        """Returns texts and labels."""
        assert self._data.train_labels is not None, "labels"
        return self._data.train.gather(rows)["text"], self._data.train_labels[rows]

    def collate(self, examples: tuple[Ragged, Indices], lay_out: LayOut) -> ExampleBatch:
        """Returns texts as a batch, `<s>` before each."""
        rows, labels = add_begin(examples[0]), examples[1]
        return collate_examples(rows, labels, lay_out(rows.lengths), closing=self._closing)

    def make_up(self, count: int, length: int) -> tuple[Ragged, Indices]:
        """Returns so many texts that have a length once `<s>` is before them."""
        rows = make_up_side(count, length - 1)
        rows.tokens[length - 2 :: length - 1] = EOS
        return rows, np.zeros(count, np.int64)
