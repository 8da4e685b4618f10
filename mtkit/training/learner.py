"""A model, its optimizer and, by option, frozen parts and the moving average of its weights."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from mtkit.model.parameters import find_part, is_low_rank, learns_whole
from mtkit.network.low_rank import AdaptedLinear
from mtkit.recipe.lora import Lora
from mtkit.recipe.precision import Precision
from mtkit.recipe.training import FrozenPart, Training
from mtkit.training.optimizer import build_optimizer, set_learning_rate
from mtkit.training.precision import Network_co, WorkingCopy

Network = TypeVar("Network", bound=nn.Module)


def freeze(model: nn.Module, parts: Sequence[FrozenPart], lora: Lora | None = None) -> None:
    """Sets the weights of some parts, and of no other, to take no gradient.

    With LoRA all of the network's own do, but for those that learn whole beside its matrices.
    """
    frozen = list_frozen(model, parts) if lora is None else _list_base(model, lora)
    for name, weight in model.named_parameters():
        weight.requires_grad_(name not in frozen)
    assert any(weight.requires_grad for weight in model.parameters()), "a recipe refuses that"


def list_frozen(model: nn.Module, parts: Sequence[FrozenPart]) -> set[str]:
    """Returns the names of the weights of some parts, each under its first name.

    A matrix that embeddings share with the output projection has the embeddings' name.
    """
    return {name for name, _ in model.named_parameters() if parts and find_part(name) in parts}


def _list_base(model: nn.Module, lora: Lora) -> set[str]:
    """Returns the names of the weights that stay those of LoRA's base."""
    return {
        name
        for name, _ in model.named_parameters()
        if not is_low_rank(name) and not learns_whole(name, lora)
    }


class AveragedWeights:
    """Exponential moving average of a model's weights.

    After update t it is d * average + (1 - d) * weights with d = min(decay, (1 + t) / (10 + t)). It
    starts from the model's weights of now.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._decay = decay
        self._weights = [weight for weight in model.parameters() if weight.requires_grad]
        self.tensors = [weight.detach().clone() for weight in self._weights]

    def restart(self) -> None:
        """Sets the average to the weights."""
        torch._foreach_copy_(self.tensors, [weight.detach() for weight in self._weights])

    @torch.no_grad()
    def update(self, num_updates: int) -> None:
        """Takes in the weights after an update, the last of so many."""
        decay = min(self._decay, (1 + num_updates) / (10 + num_updates))
        torch._foreach_lerp_(self.tensors, list(self._weights), 1.0 - decay)

    @torch.no_grad()
    def exchange(self) -> None:
        """Swaps the model's weights and the average."""
        for weight, average in zip(self._weights, self.tensors, strict=True):
            kept = weight.clone()
            weight.copy_(average)
            average.copy_(kept)


@dataclass(frozen=True)
class Learner(Generic[Network_co]):
    """All that an update changes.

    Attributes:
        model: The model.
        optimizer: What changes its weights; it has its moments from the start.
        working: What updates are computed with: the model, or its copy in another precision.
        average: Moving average of the weights, which is then what is validated and released.
        base_digest: Digest of the model that LoRA updates: its weights aren't in checkpoints.
            Empty without LoRA.
    """

    model: Network_co
    optimizer: torch.optim.Optimizer
    working: WorkingCopy[Network_co]
    average: AveragedWeights | None = None
    base_digest: str = ""

    @classmethod
    def of(
        cls,
        model: Network,
        training: Training,
        *,
        precision: Precision = "fp32",
        base_digest: str = "",
        keeps_bias: bool = False,
    ) -> "Learner[Network]":
        """Returns the learner of a model, on its device, that hasn't learned yet.

        Args:
            model: The model.
            training: The recipe's section.
            precision: Arithmetic of an update.
            base_digest: As `Learner` has it.
            keeps_bias: As `build_optimizer` takes it.
        """
        optimizer = build_optimizer(model, training.optimizer, keeps_bias=keeps_bias)
        settings = training.moving_average
        average = None if settings is None else AveragedWeights(model, settings.decay)
        return Learner(model, optimizer, WorkingCopy(model, precision), average, base_digest)

    @cached_property
    def weights(self) -> list[nn.Parameter]:
        """The weights that learn."""
        return [weight for weight in self.model.parameters() if weight.requires_grad]

    @property
    def saved_names(self) -> list[str] | None:
        """The weights that are in checkpoints; None for all."""
        if not self.base_digest:
            return None
        named = self.model.named_parameters()
        return [name for name, weight in named if weight.requires_grad]

    @property
    def num_updates(self) -> int:
        """Updates made so far; skipped ones aren't counted."""
        for state in self.optimizer.state.values():
            return int(state["step"].item())
        return 0

    def update(self, rate: float) -> None:
        """Changes the weights by their gradients."""
        set_learning_rate(self.optimizer, rate)
        self.optimizer.step()
        if self.average is not None:
            self.average.update(self.num_updates)

    def forget_gradients(self) -> None:
        """Removes the gradients, and frees their memory."""
        self.optimizer.zero_grad(set_to_none=True)
        self.working.forget_gradients()

    @contextmanager
    def as_released(self) -> Iterator[None]:
        """Lets the model have the weights that are validated and released while the block runs."""
        if self.average is None:
            yield
            return
        self.average.exchange()
        try:
            yield
        finally:
            self.average.exchange()

    @contextmanager
    def as_translated(self) -> Iterator[None]:
        """Lets the model compute as the one that is released does: LoRA's updates in its weights.

        That isn't the same to the last bit as updates beside the weights.
        """
        with self.as_released(), ExitStack() as merging:
            for part in self.model.modules():
                if isinstance(part, AdaptedLinear):
                    merging.enter_context(part.merged())
            yield

    def tensors(self) -> list[Tensor]:
        """Returns every tensor that makes it what it is, in an order that all processes share."""
        moments = [
            self.optimizer.state[weight][name]
            for weight in self.model.parameters()
            if weight.requires_grad
            for name in ("step", "exp_avg", "exp_avg_sq")
        ]
        averages = [] if self.average is None else self.average.tensors
        return [*(weight.detach() for weight in self.model.parameters()), *moments, *averages]

    def digest(self) -> str:
        """Returns a short digest of the weights' bits."""
        sha = hashlib.sha256()
        for weight in self.model.parameters():
            sha.update(weight.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        return sha.hexdigest()[:16]
