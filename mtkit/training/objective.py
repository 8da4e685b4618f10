"""What training minimises: the trainer knows updates and gradients, an objective knows the rest."""

from typing import Protocol

import torch
from torch import nn

from mtkit.data.batching import Indices, MicroBatch, plan_epoch, split_update
from mtkit.data.collate import Batch, collate
from mtkit.data.token_store import TokenStore
from mtkit.model import EncoderDecoder
from mtkit.recipe import Recipe
from mtkit.training.loss import LossSums, projected_cross_entropy


class Objective(Protocol):
    """A model with examples to learn from, named by index, and a loss over their tokens."""

    @property
    def model(self) -> nn.Module:
        """The model whose weights are learned."""
        ...

    def plan_epoch(self, epoch: int) -> list[Indices]:
        """Returns the examples of each update of an epoch: a pure function of `epoch`."""
        ...

    def split_update(self, examples: Indices, num_processes: int) -> list[list[MicroBatch]]:
        """Returns each process's micro-batches of one update."""
        ...

    def count_tokens(self, examples: Indices) -> int:
        """Returns how many tokens the loss of these examples is a sum over."""
        ...

    def measure(self, examples: Indices) -> LossSums:
        """Returns the loss of one micro-batch, summed over its tokens, ready for `backward`."""
        ...


class TranslationObjective:
    """Label-smoothed cross entropy of the target, given the source.

    Args:
        model: The network, on the device where it is to be trained.
        store: Sentence pairs.
        recipe: The run's recipe.
        device: Where the network is.
    """

    def __init__(
        self, model: EncoderDecoder, store: TokenStore, recipe: Recipe, device: torch.device
    ) -> None:
        self.model = model
        self._store = store
        self._settings = recipe.training
        self._seed = recipe.seed
        self._device = device

    def plan_epoch(self, epoch: int) -> list[Indices]:
        """Returns the sentences of each update of an epoch."""
        return plan_epoch(
            self._store.source_lengths,
            self._store.target_lengths,
            batch_tokens=self._settings.batch_tokens,
            length_groups=self._settings.length_groups,
            seed=self._seed,
            epoch=epoch,
        )

    def split_update(self, examples: Indices, num_processes: int) -> list[list[MicroBatch]]:
        """Returns each process's micro-batches of one update."""
        return split_update(
            examples,
            self._store.source_lengths,
            self._store.target_lengths,
            micro_batch_tokens=self._settings.micro_batch_tokens,
            num_processes=num_processes,
        )

    def count_tokens(self, examples: Indices) -> int:
        """Returns the target tokens of these sentences, `</s>` counted."""
        return int(self._store.target_lengths[examples].sum())

    def measure(self, examples: Indices) -> LossSums:
        """Returns the loss of one micro-batch, summed over its real target tokens."""
        return measure_translation(
            self.model,
            gather(self._store, examples).to(self._device),
            label_smoothing=self._settings.label_smoothing,
            precision=self._settings.precision,
        )


def measure_translation(
    model: EncoderDecoder, batch: Batch, *, label_smoothing: float, precision: str
) -> LossSums:
    """Returns the loss of a batch, summed over its real target tokens."""
    with torch.autocast(
        batch.source_tokens.device.type, dtype=torch.bfloat16, enabled=precision == "bf16"
    ):
        states_BTD = model(batch.source_tokens, batch.source_is_token, batch.target_inputs)
        return projected_cross_entropy(
            states_BTD[batch.target_is_token],
            model.output_embedding.weight,
            batch.target_outputs[batch.target_is_token],
            label_smoothing=label_smoothing,
        )


def gather(store: TokenStore, examples: Indices) -> Batch:
    """Returns stored sentence pairs as one padded batch."""
    return collate(
        [store.source(int(index)) for index in examples],
        [store.target(int(index)) for index in examples],
    )
