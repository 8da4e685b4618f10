"""Updates from prepared data, whatever an example is: what is the same for every objective."""

from collections.abc import Sequence

import torch

from mtkit.data.batches.epoch import plan_epoch
from mtkit.data.batches.ragged import Indices
from mtkit.data.batches.updates import Batch, TrainingBatches
from mtkit.data.prepared import PreparedData
from mtkit.recipe import Recipe
from mtkit.training.distributed import Processes
from mtkit.training.objectives.passes import Passes


class StoredBatches(TrainingBatches[Batch]):
    """Rows of a token store in updates that several processes share.

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
        self._device = processes.device
        self._passes = Passes.of(recipe.model.d_model, self._device, dtype=dtype, packs=packs)

    @property
    def longest(self) -> int:
        """The bound that a side of each row keeps: `data.block_tokens`, of pairs `max_tokens`."""
        return self._recipe.data.max_tokens

    def plan_epoch(self, epoch: int) -> Sequence[Indices]:
        """Returns the rows of each update of an epoch."""
        return plan_epoch(
            self._data.train_order,
            weights=self._data.weights,
            batch_tokens=self._recipe.training.batch_tokens,
            length_groups=self._recipe.training.length_groups,
            seed=self._recipe.seed,
            epoch=epoch,
        )

    def lengths(self, examples: Indices) -> dict[str, Indices]:
        """Returns the tokens of each column of rows, what closes them counted."""
        return self._data.train.lengths(examples)
