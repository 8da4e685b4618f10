"""A translator's objective: label-smoothed cross entropy of the target, given the source."""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import torch

from mtkit.data.batches.collate import TranslationBatch, lay_out, pack
from mtkit.data.batches.epoch import plan_epoch
from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.batches.updates import Batch, TrainingBatches
from mtkit.data.prepared import PreparedData
from mtkit.data.subword_sampling import SegmentationSampler
from mtkit.network import EncoderDecoder
from mtkit.recipe import Recipe
from mtkit.text.token_ids import UNK
from mtkit.training.distributed import Processes
from mtkit.training.learner import Learner
from mtkit.training.loss import LossSums
from mtkit.training.objectives.passes import Passes
from mtkit.training.translation_loss import measure_translation
from mtkit.training.validation import ModelValidator, ValidationResult


class PairBatches(TrainingBatches[Batch]):
    """Sentence pairs in updates that several processes share, as a network of either kind has them.

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
        self._data = data
        self._recipe = recipe
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
        self._device = processes.device
        self._passes = Passes.of(recipe.model.d_model, self._device, dtype=dtype, packs=packs)

    @property
    def longest(self) -> int:
        """The bound that prepared and sampled sentences keep: `data.cleaning.max_tokens`."""
        return self._recipe.data.cleaning.max_tokens

    def plan_epoch(self, epoch: int) -> Sequence[Indices]:
        """Returns the sentences of each update of an epoch."""
        return plan_epoch(
            self._data.train_order,
            weights=self._data.weights,
            batch_tokens=self._recipe.training.batch_tokens,
            length_groups=self._recipe.training.length_groups,
            seed=self._recipe.seed,
            epoch=epoch,
        )

    def split(self, examples: Indices, num_processes: int, limit: int) -> list[list[MicroBatch]]:
        """Returns each process's micro-batches of one update, within the limit of a pass.

        Where segmentations are sampled, each has room for the longest that may come.
        """
        lengths = self._data.train.lengths(examples)
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

    def lengths(self, examples: Indices) -> dict[str, Indices]:
        """Returns the tokens of each side of sentence pairs, `</s>` counted."""
        return self._data.train.lengths(examples)

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
        return self._collate(tokens["source"], tokens["target"], grid_sizes, micro_batch.row_step)

    def largest(self, limit: int) -> Batch:
        """Returns a made-up batch: as many of the longest sentences as the limit of a pass lets."""
        strata = self._data.train_order.strata
        longest = int(max(strata["source_length"].max(), strata["target_length"].max()))
        if self._sampler is not None:
            longest = int(self._sampler.bound(np.array([longest]))[0])
        count = max(1, limit // longest)
        side = Ragged(np.full(count * longest, UNK), np.full(count, longest))
        return self._collate(side, side, (count,), self._passes.row_step)

    @abstractmethod
    def _collate(
        self, source: Ragged, target: Ragged, grid_sizes: tuple[int, ...], row_step: int
    ) -> Batch:
        """Returns sentence pairs as a batch on the device."""


class TranslationBatches(PairBatches[TranslationBatch]):
    """Sentence pairs with sides of their own, for an encoder and a decoder."""

    def _collate(
        self, source: Ragged, target: Ragged, grid_sizes: tuple[int, ...], row_step: int
    ) -> TranslationBatch:
        batch = (
            pack(source, target)
            if self._passes.packs
            else lay_out(source, target, grid_sizes, row_step=row_step)
        )
        return batch.to(self._device)


class TranslationObjective:
    """Label-smoothed cross entropy of the target, given the source, wherever pairs come from."""

    def __init__(
        self,
        learner: Learner[EncoderDecoder],
        batches: TrainingBatches[TranslationBatch],
        validator: ModelValidator[EncoderDecoder],
        *,
        label_smoothing: float,
    ) -> None:
        self.batches = batches
        self._model = learner.model
        self._working_model = learner.working.model
        self._validator = validator
        self._label_smoothing = label_smoothing

    def loss(self, batch: TranslationBatch) -> LossSums:
        """Returns the loss of a batch, summed over its real target tokens."""
        return measure_translation(
            self._working_model, batch, label_smoothing=self._label_smoothing
        )

    def validate(self) -> ValidationResult:
        """Returns the network's loss and scores on the development set."""
        return self._validator.validate(self._model)
