"""The precision of updates, and the copy of the weights in it."""

from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from mtkit.network.device import choose_fastest_precision
from mtkit.network.projecting import copy_in
from mtkit.recipe.precision import TrainingPrecision, TrainingPrecisionChoice
from mtkit.training.distributed import ProcessGroup

Network_co = TypeVar("Network_co", bound=nn.Module, covariant=True)
_HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def resolve_precision(
    choice: TrainingPrecisionChoice, processes: ProcessGroup
) -> TrainingPrecision:
    """Returns the recipe's precision; for `auto`, one that suits every rank's device."""
    if choice != "auto":
        return choice
    return "fp32" if processes.any(choose_fastest_precision(processes.device) == "fp32") else "bf16"


class WorkingCopy(Generic[Network_co]):
    """A model's weights in the precision of the updates.

    In bf16 and fp16 the model keeps its weights in fp32, where an update's small steps add up
    (arXiv 1710.03740, section 3.1), and the passes use a copy, made once per update. In fp32
    `model` is the model itself.
    """

    def __init__(self, master: Network_co, precision: TrainingPrecision) -> None:
        self._master = master
        self.model: Network_co = master
        self.precision = precision
        if precision in _HALVES:
            self.model = copy_in(master, _HALVES[precision]).train()
        self._masters: list[Tensor] = list(master.parameters())
        self._weights: list[Tensor] = list(self.model.parameters())

    @torch.no_grad()
    def refresh(self) -> None:
        """Copies the model's current weights."""
        if self.model is not self._master:
            torch._foreach_copy_(self._weights, self._masters)

    @torch.no_grad()
    def accumulate_gradients(self) -> None:
        """Adds the copy's gradients to the model's, in the model's precision, and drops them."""
        if self.model is self._master:
            return
        first: tuple[list[Tensor], list[Tensor]] = [], []
        further: tuple[list[Tensor], list[Tensor]] = [], []
        for weight, master in zip(self._weights, self._masters, strict=True):
            if weight.grad is None:
                continue
            sums, gradients = first if master.grad is None else further
            if master.grad is None:
                master.grad = torch.empty_like(master)
            sums.append(master.grad)
            gradients.append(weight.grad)
        if first[0]:
            torch._foreach_copy_(*first)
        if further[0]:
            torch._foreach_add_(*further)
        self.forget_gradients()

    def forget_gradients(self) -> None:
        """Drops the copy's gradients."""
        for weight in self._weights:
            weight.grad = None
