"""What training minimises: the trainer knows updates and gradients, an objective knows the rest."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import nn

from mtkit.data.batches.collate import TranslationBatch, lay_out, pack
from mtkit.data.batches.epoch import plan_epoch
from mtkit.data.batches.micro_batches import MicroBatch, split_packed_update, split_update
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.prepared import PreparedData
from mtkit.data.subword_sampling import SegmentationSampler
from mtkit.network import EncoderDecoder
from mtkit.recipe import Recipe
from mtkit.text.token_ids import UNK
from mtkit.training.loss import LossSums
from mtkit.training.translation_loss import can_pack_batches, measure_translation

_GRID_COST = 8_192
"""What a grid costs beside its tokens, in tokens that it might hold, times d_model."""
_GRID_COST_WITH_KERNELS = 32_768
"""The same on a processor in bfloat16, where oneDNN makes a kernel for each shape. Rows that are
multiples of as many tokens have few different lengths, and want few kernels (docs/log.md)."""


class Objective(Protocol):
    """A model with examples to learn from, named by index, and a loss over their tokens."""

    @property
    def model(self) -> nn.Module:
        """The model whose weights are learned."""
        ...

    def plan_epoch(self, epoch: int) -> Sequence[Indices]:
        """Returns the examples of each update of an epoch: a pure function of `epoch`."""
        ...

    def split_update(
        self, examples: Indices, num_processes: int, *, micro_batch_tokens: int
    ) -> list[list[MicroBatch]]:
        """Returns each process's micro-batches of one update, within a bound of one pass."""
        ...

    def count_tokens(self, examples: Indices, epoch: int) -> int:
        """Returns how many tokens the loss of these examples is a sum over in an epoch."""
        ...

    def prepare(self, micro_batches: Sequence[MicroBatch], epoch: int) -> None:
        """Leaves some micro-batches on the device, for `measure` to find."""
        ...

    def measure(self, micro_batch: MicroBatch, epoch: int) -> LossSums:
        """Returns the loss of one micro-batch, summed over its tokens, ready for `backward`."""
        ...

    def measure_largest(self, micro_batch_tokens: int) -> LossSums:
        """Returns the loss of a made-up micro-batch as large as any within a bound of one pass."""
        ...


class TranslationObjective:
    """Label-smoothed cross entropy of the target, given the source.

    Args:
        model: The network that passes go through, on the device where it is to be trained.
        data: The run's data.
        recipe: The run's recipe.
        device: Where the network is.
        packs: Whether batches are packed; all processes must do the same. Where it isn't said, they
            are if this device can.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        data: PreparedData,
        recipe: Recipe,
        device: torch.device,
        *,
        packs: bool | None = None,
    ) -> None:
        self.model = model
        self._store = data.train
        self._order = data.train_order
        self._weights = data.weights
        self._sampler = (
            None
            if recipe.tokenizer.sampling is None
            else SegmentationSampler(
                data.train,
                data.tokenizer,
                recipe.tokenizer.sampling,
                max_tokens=recipe.data.cleaning.max_tokens,
                seed=recipe.seed,
            )
        )
        self._settings = recipe.training
        self._seed = recipe.seed
        self._device = device
        self._prepared: dict[tuple[int, bytes], TranslationBatch] = {}
        self._packs = can_pack_batches(model, recipe, device) if packs is None else packs
        self._row_step = 1
        self._grid_slots = max(_GRID_COST // recipe.model.d_model, 1)
        dtype = model.output_embedding.weight.dtype
        if device.type == "cpu" and dtype == torch.bfloat16:
            self._grid_slots = max(_GRID_COST_WITH_KERNELS // recipe.model.d_model, 1)
            self._row_step = self._grid_slots

    def plan_epoch(self, epoch: int) -> Sequence[Indices]:
        """Returns the sentences of each update of an epoch."""
        return plan_epoch(
            self._order,
            weights=self._weights,
            batch_tokens=self._settings.batch_tokens,
            length_groups=self._settings.length_groups,
            seed=self._seed,
            epoch=epoch,
        )

    def split_update(
        self, examples: Indices, num_processes: int, *, micro_batch_tokens: int
    ) -> list[list[MicroBatch]]:
        """Returns each process's micro-batches of one update, within a bound of one pass.

        Where segmentations are sampled, each has room for the longest that may come.
        """
        lengths = self._store.lengths(examples)
        if self._sampler is not None:
            lengths = {column: self._sampler.bound(found) for column, found in lengths.items()}
        if self._packs:
            return split_packed_update(
                examples,
                lengths["source"],
                lengths["target"],
                micro_batch_tokens=micro_batch_tokens,
                num_processes=num_processes,
            )
        return split_update(
            examples,
            lengths["source"],
            lengths["target"],
            micro_batch_tokens=micro_batch_tokens,
            num_processes=num_processes,
            grid_slots=self._grid_slots,
            row_step=self._row_step,
        )

    def count_tokens(self, examples: Indices, epoch: int) -> int:
        """Returns the target tokens of these sentences in an epoch, `</s>` counted."""
        if self._sampler is not None:
            return self._sampler.count_tokens(examples, epoch, "target")
        return int(self._store.lengths(examples)["target"].sum())

    def prepare(self, micro_batches: Sequence[MicroBatch], epoch: int) -> None:
        """Leaves some micro-batches on the device, for `measure` to find; forgets earlier ones."""
        self._prepared = {
            (epoch, micro_batch.sentences.tobytes()): self._gather(micro_batch, epoch)
            for micro_batch in micro_batches
        }

    def measure(self, micro_batch: MicroBatch, epoch: int) -> LossSums:
        """Returns the loss of one micro-batch, summed over its real target tokens."""
        batch = self._prepared.pop((epoch, micro_batch.sentences.tobytes()), None)
        return self._measure(self._gather(micro_batch, epoch) if batch is None else batch)

    def measure_largest(self, micro_batch_tokens: int) -> LossSums:
        """Returns the loss of a made-up micro-batch: as many of the longest sentences as fit."""
        strata = self._order.strata
        longest = int(max(strata["source_length"].max(), strata["target_length"].max()))
        if self._sampler is not None:
            longest = int(self._sampler.bound(np.array([longest]))[0])
        count = max(1, micro_batch_tokens // longest)
        side = Ragged(np.full(count * longest, UNK), np.full(count, longest))
        return self._measure(self._to_batch(side, side, (count,), self._row_step))

    def _gather(self, micro_batch: MicroBatch, epoch: int) -> TranslationBatch:
        sentences = micro_batch.sentences
        tokens = (
            self._store.gather(sentences)
            if self._sampler is None
            else self._sampler.gather(sentences, epoch)
        )
        grid_sizes = micro_batch.grid_sizes or (len(sentences),)
        return self._to_batch(tokens["source"], tokens["target"], grid_sizes, micro_batch.row_step)

    def _to_batch(
        self, source: Ragged, target: Ragged, grid_sizes: tuple[int, ...], row_step: int
    ) -> TranslationBatch:
        batch = (
            pack(source, target)
            if self._packs
            else lay_out(source, target, grid_sizes, row_step=row_step)
        )
        return batch.to(self._device)

    def _measure(self, batch: TranslationBatch) -> LossSums:
        return measure_translation(
            self.model, batch, label_smoothing=self._settings.label_smoothing
        )
