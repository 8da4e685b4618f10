"""The batches of translators, which predict the target, given the source."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import torch

from mtkit.data.batches.collate import (
    JoinedBatch,
    LayOut,
    TranslationBatch,
    collate_joined,
    collate_pairs,
)
from mtkit.data.batches.filling import Filling
from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.batches.token_store import ALIGNMENT_COLUMN, PAIR_COLUMNS
from mtkit.data.subword_sampling import SegmentationSampler
from mtkit.training.distributed import Processes
from mtkit.training.objectives.stored import Batch, StoredBatches, make_up_side
from mtkit.training.training_run import TrainingRun


class PairBatches(StoredBatches[Mapping[str, Ragged], Batch]):
    """Sentence pairs by column, as a network of either kind has them."""

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

    def bound(self, rows: Indices) -> Sequence[Indices]:
        """Returns the tokens of both sides; the longest that may come, if they are sampled."""
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
        """Returns the target tokens of these sentences in an epoch, `</s>` counted."""
        if self._sampler is not None:
            return self._sampler.count_tokens(examples, epoch, "target")
        return int(self.lengths(examples)["target"].sum())

    def lengths(self, examples: Indices) -> dict[str, Indices]:
        """Returns the tokens of both sides of each pair, `</s>` counted."""
        lengths = self._data.train.lengths(examples)
        return {column: lengths[column] for column in PAIR_COLUMNS}

    def read(self, rows: Indices, epoch: int) -> Mapping[str, Ragged]:
        """Returns pairs with an epoch's segmentations."""
        if self._sampler is None:
            return self._data.train.gather(rows)
        return self._sampler.gather(rows, epoch)

    def make_up(self, count: int, length: int) -> Mapping[str, Ragged]:
        """Returns so many pairs of a length on both sides."""
        tokens = dict.fromkeys(PAIR_COLUMNS, make_up_side(count, length))
        if ALIGNMENT_COLUMN in self._data.train.columns:
            # Of each pair the first tokens.
            tokens[ALIGNMENT_COLUMN] = Ragged(np.zeros(2 * count, np.int64), np.full(count, 2))
        return tokens


class TranslationBatches(PairBatches[TranslationBatch]):
    """Sentence pairs with sides of their own, for an encoder and a decoder."""

    def __init__(
        self, run: TrainingRun, processes: Processes, *, dtype: torch.dtype, packs: bool
    ) -> None:
        super().__init__(run, processes, dtype=dtype, packs=packs)
        training = run.recipe.training
        if packs and training.cuda_graphs and training.guided_alignment is None:
            longest = max(self.longest, self.bound_longest())
            share = training.batch_tokens // processes.count
            self._filling = Filling.of(share, longest)

    def collate(self, examples: Mapping[str, Ragged], lay_out: LayOut) -> TranslationBatch:
        """Returns pairs as a batch, with their links where a head learns alignments."""
        batch = collate_pairs(examples["source"], examples["target"], lay_out)
        if self._filling is not None:
            return self._filling.fill(batch)
        guided = self._recipe.training.guided_alignment
        if guided is None:
            return batch
        first_row = 1 if guided.at == "input" else 0
        return batch.link(examples[ALIGNMENT_COLUMN], first_row=first_row)


class JoinedBatches(PairBatches[JoinedBatch]):
    """Sentence pairs as texts, in the updates that an encoder-decoder would make of them."""

    def bound(self, rows: Indices) -> Sequence[Indices]:
        """Returns the tokens of both sides together."""
        source, target = super().bound(rows)
        return [source + target]

    def split(self, examples: Indices, num_processes: int, limit: int) -> list[list[MicroBatch]]:
        """Returns micro-batches; their limit bounds the tokens of a side, a text has two."""
        return super().split(examples, num_processes, 2 * limit)

    def collate(self, examples: Mapping[str, Ragged], lay_out: LayOut) -> JoinedBatch:
        """Returns pairs as a batch of texts."""
        source, target = examples["source"], examples["target"]
        return collate_joined(source, target, lay_out(source.lengths + target.lengths))
