"""A translator's objective: label-smoothed cross entropy of the target, given the source."""

from abc import abstractmethod
from collections.abc import Mapping

import numpy as np
import torch

from mtkit.data.batches.collate import TranslationBatch, lay_out, pack
from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.batches.token_store import ALIGNMENT_COLUMN, PAIR_COLUMNS
from mtkit.data.batches.updates import Batch
from mtkit.data.prepared import PreparedData
from mtkit.data.subword_sampling import SegmentationSampler
from mtkit.recipe import Recipe
from mtkit.text.token_ids import UNK
from mtkit.training.distributed import Processes
from mtkit.training.objectives.stored import StoredBatches


class PairBatches(StoredBatches[Batch]):
    """Sentence pairs in updates that processes share, as a network of either kind has them."""

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
        self._sampler = (
            None
            if recipe.tokenizer.sampling is None
            else SegmentationSampler(
                data.train,
                data.tokenizer,
                recipe.tokenizer.sampling,
                max_tokens=self.longest,
                seed=recipe.seed,
            )
        )

    def split(self, examples: Indices, num_processes: int, limit: int) -> list[list[MicroBatch]]:
        """Returns each process's micro-batches of one update, within the limit of a pass.

        Where segmentations are sampled, each has room for the longest that may come.
        """
        lengths = self.lengths(examples)
        if self._sampler is not None:
            lengths = {column: self._sampler.bound(found) for column, found in lengths.items()}
        return self._split(
            examples,
            lengths["source"],
            lengths["target"],
            num_processes=num_processes,
            limit=limit,
        )

    def _split(
        self,
        examples: Indices,
        source_lengths: Indices,
        target_lengths: Indices,
        *,
        num_processes: int,
        limit: int,
    ) -> list[list[MicroBatch]]:
        """Returns each process's micro-batches of pairs whose sides have these lengths."""
        return self._passes.split(
            examples, source_lengths, target_lengths, num_processes=num_processes, limit=limit
        )

    def count_target_tokens(self, examples: Indices, epoch: int) -> int:
        """Returns the target tokens of these sentences in an epoch, `</s>` counted."""
        if self._sampler is not None:
            return self._sampler.count_tokens(examples, epoch, "target")
        return int(self._data.train.lengths(examples)["target"].sum())

    def gather(self, micro_batch: MicroBatch, epoch: int) -> Batch:
        """Returns a micro-batch with an epoch's segmentations, on the device."""
        sentences = micro_batch.sentences
        tokens = (
            self._data.train.gather(sentences)
            if self._sampler is None
            else self._sampler.gather(sentences, epoch)
        )
        grid_sizes = micro_batch.grid_sizes or (len(sentences),)
        return self._collate(tokens, grid_sizes, micro_batch.row_step)

    def lengths(self, examples: Indices) -> dict[str, Indices]:
        """Returns the tokens of both sides of each pair, `</s>` counted."""
        lengths = self._data.train.lengths(examples)
        return {column: lengths[column] for column in PAIR_COLUMNS}

    def largest(self, limit: int) -> Batch:
        """Returns a made-up batch: as many of the longest sentences as the limit of a pass lets."""
        strata = self._data.train_order.strata
        longest = int(max(strata["source_length"].max(), strata["target_length"].max()))
        if self._sampler is not None:
            longest = int(self._sampler.bound(np.array([longest]))[0])
        count = max(1, limit // longest)
        side = Ragged(np.full(count * longest, UNK), np.full(count, longest))
        tokens = dict.fromkeys(PAIR_COLUMNS, side)
        if ALIGNMENT_COLUMN in self._data.train.columns:
            # Of each pair the first tokens.
            tokens[ALIGNMENT_COLUMN] = Ragged(np.zeros(2 * count, np.int64), np.full(count, 2))
        return self._collate(tokens, (count,), self._passes.row_step)

    @abstractmethod
    def _collate(
        self, tokens: Mapping[str, Ragged], grid_sizes: tuple[int, ...], row_step: int
    ) -> Batch:
        """Returns sentence pairs, by column, as a batch on the device."""


class TranslationBatches(PairBatches[TranslationBatch]):
    """Sentence pairs with sides of their own, for an encoder and a decoder."""

    def _collate(
        self, tokens: Mapping[str, Ragged], grid_sizes: tuple[int, ...], row_step: int
    ) -> TranslationBatch:
        source, target = tokens["source"], tokens["target"]
        batch = (
            pack(source, target)
            if self._passes.packs
            else lay_out(source, target, grid_sizes, row_step=row_step)
        )
        guided = self._recipe.training.guided_alignment
        if guided is not None:
            first_row = 1 if guided.at == "input" else 0
            batch = batch.link(tokens[ALIGNMENT_COLUMN], first_row=first_row)
        return batch.to(self._device)
