"""Updates from prepared data, whatever an example is: what is the same for every objective."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
import torch

from mtkit.data.batches.epoch import plan_epoch
from mtkit.data.batches.length_order import LengthOrder
from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.batches.updates import TrainingBatches
from mtkit.network import GridLayout, PackedLayout
from mtkit.text.token_ids import UNK
from mtkit.training.distributed import Processes
from mtkit.training.objectives.passes import Passes
from mtkit.training.training_run import TrainingRun

LayOut = Callable[[Indices], GridLayout | PackedLayout]
"""Returns the layout of one side of a micro-batch, given the tokens of each sentence."""
Examples = TypeVar("Examples")
"""Rows of the store as an objective reads them in an epoch."""


class Tensors(Protocol):
    """A batch of tensors."""

    def to(self, device: torch.device) -> Self:
        """Returns the batch on a device."""
        ...


Batch = TypeVar("Batch", bound=Tensors)


class StoredBatches(TrainingBatches[Batch], Generic[Examples, Batch]):
    """Rows of a token store in updates that several processes share.

    A subclass says how rows are read and collated. `dtype` is what passes are computed in. With
    `packs` batches are packed; all processes must do the same.
    """

    def __init__(
        self, run: TrainingRun, processes: Processes, *, dtype: torch.dtype, packs: bool
    ) -> None:
        super().__init__(rank=processes.rank, num_processes=processes.count)
        self._data, self._recipe = run.data, run.recipe
        self._device = processes.device
        d_model = run.recipe.model.d_model
        self._passes = Passes.of(d_model, self._device, dtype=dtype, packs=packs)

    @abstractmethod
    def read(self, rows: Indices, epoch: int) -> Examples:
        """Returns examples as they are in an epoch."""

    @abstractmethod
    def collate(self, examples: Examples, lay_out: LayOut) -> Batch:
        """Returns examples as a batch, on the CPU."""

    @abstractmethod
    def make_up(self, count: int, length: int) -> Examples:
        """Returns so many examples of a length that is in bounds, to probe memory with."""

    def bound(self, rows: Indices) -> Sequence[Indices]:
        """Returns the tokens that rows may have in a pass, of each side, in any epoch."""
        return [self.lengths(rows)["text"]]

    def bound_longest(self) -> int:
        """Returns the tokens that the longest side of any row may have in a pass."""
        return int(self._data.train_order.strata["text_length"].max())

    @property
    def longest(self) -> int:
        """The bound that a side of each row keeps: `data.block_tokens`, of pairs `max_tokens`."""
        return self._recipe.data.max_tokens

    def plan_epoch(self, epoch: int) -> Sequence[Indices]:
        """Returns the rows of each update of an epoch."""
        return self._plan_rows(self._data.train_order, epoch)

    def _plan_rows(self, order: LengthOrder, epoch: int) -> Sequence[Indices]:
        training = self._recipe.training
        return plan_epoch(
            order,
            weights=self._data.weights,
            batch_tokens=training.batch_tokens,
            length_groups=training.length_groups,
            seed=self._recipe.seed,
            epoch=epoch,
        )

    def lengths(self, examples: Indices) -> dict[str, Indices]:
        """Returns the tokens of each column of rows, what closes them counted."""
        return self._data.train.lengths(examples)

    def split(self, examples: Indices, num_processes: int, limit: int) -> list[list[MicroBatch]]:
        """Returns each process's micro-batches of one update, within the limit of a pass."""
        *sources, target_lengths = self.bound(examples)
        source_lengths = sources[0] if sources else np.zeros_like(target_lengths)
        return self._passes.split(
            examples, source_lengths, target_lengths, num_processes=num_processes, limit=limit
        )

    def count_target_tokens(self, examples: Indices, epoch: int) -> int:
        """Returns the tokens of these rows, `</s>` counted."""
        return int(self.lengths(examples)["text"].sum())

    def gather(self, micro_batch: MicroBatch, epoch: int) -> Batch:
        """Returns a micro-batch as it is in an epoch, on the device."""
        examples = self.read(micro_batch.sentences, epoch)
        return self._send(examples, micro_batch.grid_sizes, micro_batch.row_step)

    def largest(self, limit: int) -> Batch:
        """Returns a made-up batch: as many of the longest rows as the limit of a pass lets."""
        length = self.bound_longest()
        examples = self.make_up(max(1, limit // length), length)
        return self._send(examples, (), self._passes.row_step)

    def _send(self, examples: Examples, grid_sizes: tuple[int, ...], row_step: int) -> Batch:
        lay_out = partial(self._passes.lay_out, grid_sizes=grid_sizes, row_step=row_step)
        return self.collate(examples, lay_out).to(self._device)


def make_up_side(count: int, length: int) -> Ragged:
    """Returns so many rows of unknown tokens."""
    return Ragged(np.full(count * length, UNK), np.full(count, length))
