"""Updates from prepared data: the parts common to all objectives, and sentence pairs."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Generic, TypeVar

import numpy as np
import torch

from mtkit.data.batches.collate import (
    JoinedBatch,
    LayOut,
    RowLayout,
    TranslationBatch,
    collate_joined,
    collate_pairs,
    lay_out_side,
    pack_side,
)
from mtkit.data.batches.length_order import LengthOrder
from mtkit.data.batches.micro_batches import MicroBatch, split_packed_update, split_update
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.batches.rows import WIDTH_STEP, choose_rows_multiple
from mtkit.data.batches.token_store import ALIGNMENT_COLUMN, PAIR_COLUMNS
from mtkit.data.batches.updates import EpochPlan, StagedEpochs, TrainingBatches, plan_epoch
from mtkit.data.prepared import check_weights
from mtkit.data.subword_sampling import SegmentationSampler
from mtkit.network.device import Sendable
from mtkit.text.token_ids import UNK
from mtkit.training.distributed import ProcessGroup
from mtkit.training.training_run import TrainingRun

_GRID_COST = 8_192
"""Fixed cost of a grid, in tokens, times d_model."""
_GRID_COST_WITH_KERNELS = 32_768
"""The same on a CPU in 16 bits, where oneDNN builds a kernel for each shape. Rows that are
multiples of this many tokens have few distinct lengths, and need few kernels (docs/log.md)."""


Examples = TypeVar("Examples")
"""Rows of the store as an objective reads them in an epoch."""


Batch = TypeVar("Batch", bound=Sendable)


class StoredBatches(TrainingBatches[Batch], Generic[Examples, Batch]):
    """Rows of a token store in updates that several ranks share.

    A subclass reads and collates rows. `dtype` is the precision of the passes. `packs` selects
    packed batches; it must be the same on all ranks.
    """

    def __init__(
        self, run: TrainingRun, processes: ProcessGroup, *, dtype: torch.dtype, packs: bool
    ) -> None:
        super().__init__(rank=processes.rank, num_processes=processes.count)
        self._data, self._recipe = run.data, run.recipe
        self._device = processes.device
        self._packs = packs
        # Number of rows of packed passes is a multiple of this, if they should have few shapes.
        self._rows_multiple = 0
        makes_kernels = self._device.type == "cpu" and dtype.itemsize == 2
        cost = _GRID_COST_WITH_KERNELS if makes_kernels else _GRID_COST
        self._grid_slots = max(cost // run.recipe.model.d_model, 1)
        self._row_step = self._grid_slots if makes_kernels else 1

    @abstractmethod
    def read(self, rows: Indices, epoch: int) -> Examples:
        """Returns examples as they are in an epoch."""

    @abstractmethod
    def collate(self, examples: Examples, lay_out: LayOut) -> Batch:
        """Returns examples as a batch, on the CPU."""

    @abstractmethod
    def make_dummy(self, count: int, length: int) -> Examples:
        """Returns `count` examples of a length within the bounds, to probe memory with."""

    def bound(self, rows: Indices) -> Sequence[Indices]:
        """Returns the maximum tokens of each row in a pass, for each side, in any epoch."""
        return [self.lengths(rows)["text"]]

    def bound_longest(self) -> int:
        """Returns the maximum tokens of any row's longest side in a pass."""
        return int(self._data.train_order.strata["text_length"].max())

    @property
    def longest(self) -> int:
        """The maximum tokens per side of a row: `data.block_tokens`, or `max_tokens` of pairs."""
        return self._recipe.data.max_tokens

    def plan_epoch(self, epoch: int) -> Sequence[Indices]:
        """Returns the rows of each update of an epoch."""
        return self._epochs.plan(epoch)

    @cached_property
    def _epochs(self) -> StagedEpochs:
        return StagedEpochs(self._list_stages())

    def _list_stages(self) -> list[tuple[int | None, Callable[[int], EpochPlan]]]:
        """Returns the number of updates of each stage, and what plans its epochs."""
        order = self._data.train_order
        check_weights(self._recipe, order)
        return [
            (stage.count, partial(self._plan_rows, order, stage.weights))
            for stage in self._recipe.stages
        ]

    def _plan_rows(
        self, order: LengthOrder, weights: Sequence[float], epoch: int, *, first_row: int = 0
    ) -> EpochPlan:
        training = self._recipe.training
        return plan_epoch(
            order,
            weights=weights,
            batch_tokens=training.batch_tokens,
            length_groups=training.length_groups,
            seed=self._recipe.seed,
            epoch=epoch,
            first_row=first_row,
        )

    def lengths(self, examples: Indices) -> dict[str, Indices]:
        """Returns the tokens of each column of rows, closing tokens included."""
        return self._data.train.lengths(examples)

    def split(self, examples: Indices, num_processes: int, limit: int) -> list[list[MicroBatch]]:
        """Returns each rank's micro-batches of one update, within the limit of a pass."""
        *sources, target_lengths = self.bound(examples)
        source_lengths = sources[0] if sources else np.zeros_like(target_lengths)
        sides = examples, source_lengths, target_lengths
        if self._packs:
            return split_packed_update(
                *sides,
                micro_batch_tokens=limit,
                num_processes=num_processes,
                rows_multiple=self._rows_multiple,
            )
        return split_update(
            *sides,
            micro_batch_tokens=limit,
            num_processes=num_processes,
            grid_slots=self._grid_slots,
            row_step=self._row_step,
        )

    def count_target_tokens(self, examples: Indices, epoch: int) -> int:
        """Returns the tokens of these rows, including `</s>`."""
        return int(self.lengths(examples)["text"].sum())

    def gather(self, micro_batch: MicroBatch, epoch: int) -> Batch:
        """Returns a micro-batch as it is in an epoch, on the device."""
        examples = self.read(micro_batch.sentences, epoch)
        return self._send(examples, micro_batch.grid_sizes, micro_batch.row_step)

    def largest(self, limit: int) -> Batch:
        """Returns a made-up batch: as many of the longest rows as the limit of a pass allows."""
        length = self.bound_longest()
        examples = self.make_dummy(max(1, limit // length), length)
        return self._send(examples, (), WIDTH_STEP if self._packs else self._row_step)

    def _send(self, examples: Examples, grid_sizes: tuple[int, ...], row_step: int) -> Batch:
        def lay_out(lengths: Indices) -> RowLayout:
            if self._packs:
                rows = grid_sizes or (1,) * len(lengths)
                return pack_side(lengths, rows, width_step=row_step)
            return lay_out_side(lengths, grid_sizes or (len(lengths),), row_step=row_step)

        return self.collate(examples, lay_out).to(self._device)


def make_dummy_side(count: int, length: int) -> Ragged:
    """Returns `count` rows of unknown tokens."""
    return Ragged(np.full(count * length, UNK), np.full(count, length))


class PairBatches(StoredBatches[Mapping[str, Ragged], Batch]):
    """Sentence pairs by column, for encoder-decoder and decoder-only networks."""

    @cached_property
    def _sampler(self) -> SegmentationSampler | None:
        sampling = self._recipe.tokenizer.sampling
        if sampling is None:
            return None
        return SegmentationSampler(
            self._data.train,
            self._data.tokenizer,
            sampling,
            max_tokens=self.longest,
            seed=self._recipe.seed,
        )

    @property
    def draws_targets(self) -> bool:
        """Whether each epoch draws the segmentation of its targets."""
        return self._sampler is not None

    def bound(self, rows: Indices) -> Sequence[Indices]:
        """Returns the tokens of both sides; with sampling, their maximum."""
        sides = list(self.lengths(rows).values())
        return sides if self._sampler is None else [self._sampler.bound(side) for side in sides]

    def bound_longest(self) -> int:
        """Returns the tokens of the longest sentence, or of its longest segmentation."""
        strata = self._data.train_order.strata
        longest = int(max(strata["source_length"].max(), strata["target_length"].max()))
        return (
            longest if self._sampler is None else int(self._sampler.bound(np.array([longest]))[0])
        )

    def count_target_tokens(self, examples: Indices, epoch: int) -> int:
        """Returns the target tokens of these sentences in an epoch, including `</s>`."""
        if self._sampler is not None:
            return self._sampler.count_tokens(examples, epoch, "target")
        return int(self.lengths(examples)["target"].sum())

    def lengths(self, examples: Indices) -> dict[str, Indices]:
        """Returns the tokens of both sides of each pair, including `</s>`."""
        lengths = self._data.train.lengths(examples)
        return {column: lengths[column] for column in PAIR_COLUMNS}

    def read(self, rows: Indices, epoch: int) -> Mapping[str, Ragged]:
        """Returns pairs with an epoch's segmentations."""
        sampler = self._sampler
        return self._data.train.gather(rows) if sampler is None else sampler.gather(rows, epoch)

    def make_dummy(self, count: int, length: int) -> Mapping[str, Ragged]:
        """Returns `count` pairs with this length on both sides."""
        tokens = dict.fromkeys(PAIR_COLUMNS, make_dummy_side(count, length))
        if ALIGNMENT_COLUMN in self._data.train.columns:
            # One link per pair, between the first tokens.
            tokens[ALIGNMENT_COLUMN] = Ragged(np.zeros(2 * count, np.int64), np.full(count, 2))
        return tokens


class TranslationBatches(PairBatches[TranslationBatch]):
    """Sentence pairs with separate sides, for an encoder and a decoder."""

    def __init__(
        self, run: TrainingRun, processes: ProcessGroup, *, dtype: torch.dtype, packs: bool
    ) -> None:
        super().__init__(run, processes, dtype=dtype, packs=packs)
        training = run.recipe.training
        # A recorded pass overwrites gradients, which only a 16-bit copy allows.
        records = training.cuda_graphs and dtype.itemsize == 2
        if packs and records and training.guided_alignment is None:
            self._rows_multiple = choose_rows_multiple(training.batch_tokens // processes.count)

    def collate(self, examples: Mapping[str, Ragged], lay_out: LayOut) -> TranslationBatch:
        """Returns pairs as a batch, with their links if a head learns alignments."""
        source, target = examples["source"], examples["target"]
        batch = collate_pairs(source, target, lay_out)
        if self._rows_multiple:
            return batch.fill(max(self.longest, self.bound_longest()))
        guided = self._recipe.training.guided_alignment
        if guided is None:
            return batch
        first_row = 1 if guided.at == "input" else 0
        return batch.link(examples[ALIGNMENT_COLUMN], first_row=first_row)


class JoinedBatches(PairBatches[JoinedBatch]):
    """Sentence pairs as texts, in the same updates as for an encoder-decoder."""

    sides_in_a_row = 2

    def bound(self, rows: Indices) -> Sequence[Indices]:
        """Returns the tokens of both sides together."""
        source, target = super().bound(rows)
        return [source + target]

    def split(self, examples: Indices, num_processes: int, limit: int) -> list[list[MicroBatch]]:
        """Returns micro-batches; `limit` bounds the tokens of one side, and a text has two."""
        return super().split(examples, num_processes, self.sides_in_a_row * limit)

    def collate(self, examples: Mapping[str, Ragged], lay_out: LayOut) -> JoinedBatch:
        """Returns pairs as a batch of texts."""
        source, target = examples["source"], examples["target"]
        layout = lay_out(source.lengths + target.lengths)
        return collate_joined(source, target, layout)
