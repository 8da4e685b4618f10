"""A masked language model's objective: hidden tokens of a text, given all others (BERT)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import torch

from mtkit.data.batches.collate import MaskedBatch, collate_masked
from mtkit.data.batches.epoch import plan_epoch
from mtkit.data.batches.masking import TokenMasker
from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.batches.segments import NUM_ADDED, SegmentReader, Segments, check_pairs
from mtkit.data.batches.text_blocks import TextBlocks
from mtkit.data.prepared import PreparedData
from mtkit.recipe import Recipe
from mtkit.recipe.masking import Masking
from mtkit.text.token_ids import UNK
from mtkit.training.distributed import Processes
from mtkit.training.objectives.stored import StoredBatches


class MaskedBatches(StoredBatches[MaskedBatch]):
    """Blocks of text with hidden tokens, in updates that several processes share.

    The first `short_updates` of `max_steps` are made with short blocks, if the recipe has any. An
    example is a number: that of a block or, behind all of these, of a short one. `dtype` is what
    passes are computed in. With `packs` batches are packed; all processes must do the same.

    Raises:
        MtkitError: The text has no pairs of segments, which the recipe wants.
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
        super().__init__(data, recipe, processes, dtype=dtype, packs=packs)
        assert data.documents is not None, "pairs"
        masking = recipe.training.masked
        self._masker = TokenMasker.of(masking, data.tokenizer, words=(recipe.seed,))
        blocks = TextBlocks(data.train, data.train_order, data.documents)
        self._long = _Blocks.of(blocks, 0, recipe, masking, recipe.data.block_tokens)
        self._short = None
        if data.train_short is not None:
            assert masking.short_tokens is not None
            num_long = len(data.train)
            self._short = _Blocks.of(
                data.train_short, num_long, recipe, masking, masking.short_tokens
            )
        self._num_short_updates = round(masking.short_updates * recipe.training.max_steps)
        self._short_updates_before = [0]

    def plan_epoch(self, epoch: int) -> Sequence[Indices]:
        """Returns the blocks of each update of an epoch.

        The last epoch of short blocks ends with the last update that is made with them.
        """
        if self._short is None:
            return self._plan_blocks(self._long, epoch)
        before = self._short_updates_before
        while len(before) <= epoch and before[-1] < self._num_short_updates:
            before.append(before[-1] + len(self._plan_blocks(self._short, len(before) - 1)))
        if epoch >= len(before) or before[epoch] >= self._num_short_updates:
            return self._plan_blocks(self._long, epoch)
        left = self._num_short_updates - before[epoch]
        return _PartOfPlan(self._plan_blocks(self._short, epoch), left, self._short.first)

    def _plan_blocks(self, blocks: "_Blocks", epoch: int) -> Sequence[Indices]:
        return plan_epoch(
            blocks.text.order,
            weights=self._data.weights,
            batch_tokens=self._recipe.training.batch_tokens,
            length_groups=self._recipe.training.length_groups,
            seed=self._recipe.seed,
            epoch=epoch,
        )

    def _find(self, examples: Indices) -> tuple["_Blocks", Indices]:
        """Returns the blocks that an update's examples are among, and their rows."""
        blocks = self._long
        if self._short is not None and examples[0] >= self._short.first:
            blocks = self._short
        return blocks, examples - blocks.first

    def lengths(self, examples: Indices) -> dict[str, Indices]:
        """Returns the tokens of the blocks, `</s>` counted."""
        blocks, rows = self._find(examples)
        return blocks.text.store.lengths(rows)

    def split(self, examples: Indices, num_processes: int, limit: int) -> list[list[MicroBatch]]:
        """Returns each process's micro-batches of one update, within the limit of a pass.

        Each has room for the longest inputs that may come of its blocks.
        """
        blocks, rows = self._find(examples)
        lengths = blocks.reader.bound(rows)
        return self._passes.split_side(examples, lengths, num_processes=num_processes, limit=limit)

    def count_target_tokens(self, examples: Indices, epoch: int) -> int:
        """Returns how many tokens of these blocks are predicted in an epoch."""
        blocks, rows = self._find(examples)
        segments = blocks.reader.read(rows, epoch)
        return int(self._masker.count(segments.num_text_tokens).sum())

    def gather(self, micro_batch: MicroBatch, epoch: int) -> MaskedBatch:
        """Returns a micro-batch with an epoch's segments and hidden tokens, on the device."""
        blocks, rows = self._find(micro_batch.sentences)
        segments = blocks.reader.read(rows, epoch)
        return self._collate(
            segments,
            micro_batch.sentences,
            epoch,
            grid_sizes=micro_batch.grid_sizes,
            row_step=micro_batch.row_step,
        )

    def largest(self, limit: int) -> MaskedBatch:
        """Returns a made-up batch: as many of the longest inputs as the limit of a pass lets."""
        longest = min(
            self.longest, int(self._data.train_order.strata["text_length"].max()) + NUM_ADDED
        )
        count = max(1, limit // longest)
        rows = np.arange(count)
        tokens = np.full((count, longest), UNK)
        text_indices = np.arange(tokens.size).reshape(tokens.shape)[:, 1:-1].ravel()
        segments = Segments(
            Ragged(tokens.ravel(), np.full(count, longest)),
            np.zeros(tokens.size, dtype=np.int64),
            text_indices,
            np.full(count, longest - 2),
            np.zeros(count, dtype=np.bool_) if self._long.reader.has_pairs else None,
        )
        return self._collate(segments, rows, 0, grid_sizes=(), row_step=self._passes.row_step)

    def _collate(
        self,
        segments: Segments,
        examples: Indices,
        epoch: int,
        *,
        grid_sizes: tuple[int, ...],
        row_step: int,
    ) -> MaskedBatch:
        hidden = self._masker.hide(segments, examples, epoch)
        layout = self._passes.lay_out(segments.tokens.lengths, grid_sizes, row_step)
        return collate_masked(segments, hidden, layout).to(self._device)


@dataclass(frozen=True)
class _Blocks:
    """Blocks of one length, numbered from `first` on."""

    text: TextBlocks
    first: int
    reader: SegmentReader

    @classmethod
    def of(
        cls, text: TextBlocks, first: int, recipe: Recipe, masking: Masking, max_tokens: int
    ) -> "_Blocks":
        if masking.next_sentence:
            check_pairs(text.store, text.documents, "the training text")
        reader = SegmentReader(
            text.store,
            text.documents,
            # Short blocks draw otherwise than the others.
            words=(recipe.seed, first),
            max_tokens=max_tokens,
            next_sentence=masking.next_sentence,
        )
        return cls(text, first, reader)


@dataclass(frozen=True)
class _PartOfPlan(Sequence[Indices]):
    """The first `num_updates` updates of a plan, whose rows are numbered from `first_row` on."""

    plan: Sequence[Indices]
    num_updates: int
    first_row: int

    def __len__(self) -> int:
        return min(self.num_updates, len(self.plan))

    @overload
    def __getitem__(self, update: int) -> Indices: ...

    @overload
    def __getitem__(self, update: slice) -> list[Indices]: ...

    def __getitem__(self, update: int | slice) -> Indices | list[Indices]:
        if isinstance(update, slice):
            return [self[number] for number in range(*update.indices(len(self)))]
        return self.plan[range(len(self))[update]] + self.first_row
