"""A model, its optimizer and, if configured, frozen parts and a moving average of its weights.

An update may be computed in bf16 or fp16, on a working copy. Checkpoints hold Adam's moments by
the names of their weights.
"""

import hashlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from mtkit.errors import MtkitError
from mtkit.model.parameters import find_part, is_low_rank, learns_whole
from mtkit.network.low_rank import AdaptedLinear
from mtkit.recipe.lora import Lora
from mtkit.recipe.precision import TrainingPrecision
from mtkit.recipe.training import Adam, FrozenPart, Training
from mtkit.training.distributed import ProcessGroup
from mtkit.training.precision import Network_co, WorkingCopy
from mtkit.training.sharding import MOMENTS, Shards

Network = TypeVar("Network", bound=nn.Module)

_NUM_UPDATES = "step"
_OUTPUT_BIAS = "output_bias"
_IS_KEPT = "is_kept"


class _AdamW(torch.optim.AdamW):
    """torch's AdamW without the compiler, whose import takes three seconds and isn't needed."""

    add_param_group = inspect.unwrap(torch.optim.AdamW.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.AdamW.zero_grad)
    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))


def build_optimizer(
    model: nn.Module, adam: Adam, *, keeps_bias: bool = False, shards: Shards | None = None
) -> torch.optim.AdamW:
    """Returns Adam (arXiv 1412.6980) over all weights that learn, with moments of zero.

    The loop sets the learning rate at every step. Decoupled weight decay (arXiv 1711.05101) applies
    to matrices; without decay this is plain Adam. With `keeps_bias` the output bias stays as it is,
    but has moments, so that checkpoints have the same tensors.
    """
    learning = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
    weights: list[Tensor] = [weight for _, weight in learning]
    parameters = weights if shards is None else shards.parts
    matrices, vectors, kept = (list[Tensor]() for _ in range(3))
    for (name, weight), updated in zip(learning, parameters, strict=True):
        is_kept = keeps_bias and name == _OUTPUT_BIAS
        (matrices if weight.ndim >= 2 else kept if is_kept else vectors).append(updated)
    groups: list[dict[str, Any]] = [
        {"params": matrices, "weight_decay": adam.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    if kept:
        groups.append({"params": kept, "weight_decay": 0.0, _IS_KEPT: True})
    optimizer = _AdamW(groups, lr=0.0, betas=(adam.beta1, adam.beta2), eps=adam.epsilon, fused=True)
    # torch would create them in the first update. Here memory is tried and budgeted before that.
    for updated in parameters:
        optimizer.state[updated] = {
            "step": torch.zeros((), device=updated.device),
            **{moment: torch.zeros_like(updated) for moment in MOMENTS},
        }
    return optimizer


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Sets the learning rate of every group except those that keep their weights."""
    for group in optimizer.param_groups:
        group["lr"] = 0.0 if group.get(_IS_KEPT) else rate


def freeze(model: nn.Module, parts: Sequence[FrozenPart], lora: Lora | None = None) -> None:
    """Freezes the weights of these parts and no others.

    With LoRA all of the network's own weights are frozen, except those that learn together with its
    matrices.
    """
    frozen = list_frozen(model, parts) if lora is None else _list_base(model, lora)
    for name, weight in model.named_parameters():
        weight.requires_grad_(name not in frozen)
    assert any(weight.requires_grad for weight in model.parameters()), "a recipe rejects that"


def list_frozen(model: nn.Module, parts: Sequence[FrozenPart]) -> set[str]:
    """Returns the names of the weights of some parts, each under its first name.

    A matrix that the embeddings share with the output projection has the embeddings' name.
    """
    return {name for name, _ in model.named_parameters() if parts and find_part(name) in parts}


def _list_base(model: nn.Module, lora: Lora) -> set[str]:
    """Returns the names of the weights that stay equal to LoRA's base."""
    return {
        name
        for name, _ in model.named_parameters()
        if not is_low_rank(name) and not learns_whole(name, lora)
    }


class AveragedWeights:
    """Exponential moving average of a model's weights.

    After update t it is d * average + (1 - d) * weights with d = min(decay, (1 + t) / (10 + t)). It
    starts from the model's current weights.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._decay = decay
        self._weights = [weight for weight in model.parameters() if weight.requires_grad]
        self.num_updates: int | None = None
        """Updates of the weights so far; None until the learner counts them."""
        self.tensors = [weight.detach().clone() for weight in self._weights]

    def restart(self) -> None:
        """Sets the average to the weights."""
        torch._foreach_copy_(self.tensors, [weight.detach() for weight in self._weights])

    @torch.no_grad()
    def update(self, num_updates: int) -> None:
        """Updates the average with the weights after update `num_updates`."""
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
    """Everything that an update changes.

    Attributes:
        optimizer: Has its moments from the start.
        working: What updates are computed with: the model, or its copy in another precision.
        average: Moving average of the weights; validated and released if it exists.
        base_digest: Digest of LoRA's base model, whose weights aren't in checkpoints. Empty without
            LoRA.
        shards: What each rank updates; None if each updates all weights.
    """

    model: Network_co
    optimizer: torch.optim.Optimizer
    working: WorkingCopy[Network_co]
    average: AveragedWeights | None = None
    base_digest: str = ""
    shards: Shards | None = None

    @classmethod
    def of(
        cls,
        model: Network,
        training: Training,
        *,
        precision: TrainingPrecision = "fp32",
        base_digest: str = "",
        keeps_bias: bool = False,
        processes: ProcessGroup | None = None,
    ) -> "Learner[Network]":
        """Returns the untrained learner of a model that is already on its device.

        Several processes shard its optimizer if the recipe says so.
        """
        shards = None
        if training.shard and processes is not None and processes.count > 1:
            shards = Shards([one for one in model.parameters() if one.requires_grad], processes)
        optimizer = build_optimizer(model, training.optimizer, keeps_bias=keeps_bias, shards=shards)
        settings = training.moving_average
        average = None if settings is None else AveragedWeights(model, settings.decay)
        working = WorkingCopy(model, precision)
        return Learner(model, optimizer, working, average, base_digest, shards)

    @cached_property
    def weights(self) -> list[nn.Parameter]:
        """The weights that learn."""
        return [weight for weight in self.model.parameters() if weight.requires_grad]

    @property
    def updated(self) -> Sequence[Tensor]:
        """What this rank updates of each weight that learns."""
        return self.weights if self.shards is None else self.shards.parts

    @property
    def states(self) -> list[dict[str, Tensor]]:
        """The optimizer's state of each tensor in `updated`."""
        return [self.optimizer.state[one] for one in self.updated]

    @property
    def saved_names(self) -> list[str] | None:
        """The weights in checkpoints; None for all."""
        return _list_learning(self.model) if self.base_digest else None

    @property
    def num_updates(self) -> int:
        """Updates made so far, without skipped ones."""
        for state in self.optimizer.state.values():
            return int(state["step"].item())
        return 0

    def flatten_gradients(self, processes: ProcessGroup) -> Tensor | None:
        """Returns this rank's gradients as `sum_update` takes them."""
        return None if self.shards is not None else processes.flatten_gradients(self.weights)

    def sum_update(
        self, flat: Tensor | None, values: Tensor, processes: ProcessGroup, factor: float
    ) -> Tensor:
        """Sets gradients and `values` to the sums over all ranks; returns the gradient's norm.

        On entry the gradients are scaled by `factor`.
        """
        if self.shards is not None:
            return self.shards.sum_update(values, factor)
        processes.sum_update(self.weights, flat, values)
        if factor != 1.0:
            self.divide_gradients(factor)
        return nn.utils.get_total_norm([one.grad for one in self.weights if one.grad is not None])

    def update(self, rate: float) -> None:
        """Changes the weights by their gradients."""
        set_learning_rate(self.optimizer, rate)
        self.optimizer.step()
        if self.shards is not None:
            self.shards.gather_weights()
        if self.average is not None:
            # Counted here, because a GPU's count is read only by waiting for it.
            known = self.average.num_updates
            self.average.num_updates = self.num_updates if known is None else known + 1
            self.average.update(self.average.num_updates)

    def divide_gradients(self, divisor: Tensor | float) -> None:
        """Divides the gradients of what this rank updates, if it has any; a GPU queues it."""
        # None has a gradient if the only process ran out of memory.
        if gradients := [one.grad for one in self.updated if one.grad is not None]:
            torch._foreach_div_(gradients, divisor)

    def forget_count(self) -> None:
        """Makes the optimizer's count of updates be read again, after a restore."""
        if self.average is not None:
            self.average.num_updates = None

    def forget_gradients(self) -> None:
        """Drops the gradients and frees their memory, except that of shards."""
        self.optimizer.zero_grad(set_to_none=True)
        self.working.forget_gradients()
        if self.shards is not None:
            self.shards.restart_gradients()

    @contextmanager
    def as_released(self) -> Iterator[None]:
        """Gives the model the weights that are validated and released, while the block runs."""
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
        """Merges LoRA's updates into the weights while the block runs, as in the released model.

        That isn't bit-identical to separate updates.
        """
        with self.as_released(), ExitStack() as merging:
            for part in self.model.modules():
                if isinstance(part, AdaptedLinear):
                    merging.enter_context(part.merged())
            yield

    def tensors(self) -> list[Tensor]:
        """Returns every tensor of its state that all ranks have, in an order that they share."""
        names = ("step", *(MOMENTS if self.shards is None else ()))
        moments = [state[name] for state in self.states for name in names]
        averages = [] if self.average is None else self.average.tensors
        return [*(weight.detach() for weight in self.model.parameters()), *moments, *averages]

    def digest(self) -> str:
        """Returns a short digest of the weights' bits."""
        sha = hashlib.sha256()
        for weight in self.model.parameters():
            sha.update(weight.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        return sha.hexdigest()[:16]


def pack_moments(learner: Learner[nn.Module]) -> dict[str, Tensor]:
    """Returns both moments of each weight that learns, on the CPU, and the count of updates.

    Those of shards must have been gathered.
    """
    packed = {_NUM_UPDATES: torch.tensor(learner.num_updates)}
    for moment in MOMENTS:
        whole: Sequence[Tensor | None] = [state[moment] for state in learner.states]
        if learner.shards is not None:
            whole = learner.shards.whole.pop(moment)
        for name, one in zip(_list_learning(learner.model), whole, strict=True):
            assert one is not None
            packed[f"{moment}.{name}"] = one.detach().cpu().contiguous()
    return packed


def _list_learning(model: nn.Module) -> list[str]:
    return [name for name, weight in model.named_parameters() if weight.requires_grad]


def load_moments(
    learner: Learner[nn.Module], tensors: Mapping[str, Tensor], was_frozen: set[str], path: Path
) -> None:
    """Sets the optimizer's state to what `pack_moments` returned.

    A weight that was frozen then and learns now has moments of 0; `path` is for messages. Those of
    shards are yet to be scattered.
    """
    _check_moments(learner.model, tensors, was_frozen, path)
    learner.forget_count()
    for state in learner.states:
        state["step"].fill_(float(tensors[_NUM_UPDATES]))
    for moment in MOMENTS:
        whole = [tensors.get(f"{moment}.{name}") for name in _list_learning(learner.model)]
        if learner.shards is not None:
            learner.shards.whole[moment] = whole
            continue
        for state, saved in zip(learner.states, whole, strict=True):
            state[moment].zero_() if saved is None else state[moment].copy_(saved)


def _check_moments(
    model: nn.Module, tensors: Mapping[str, Tensor], was_frozen: set[str], path: Path
) -> None:
    hint = f"remove {path.parent} to resume from the checkpoint before it"
    expected = {
        f"{moment}.{name}": weight.shape
        for name, weight in model.named_parameters()
        if name not in was_frozen
        for moment in MOMENTS
    }
    expected[_NUM_UPDATES] = torch.Size()
    for name in sorted(expected.keys() | tensors.keys()):
        if name not in tensors or name not in expected:
            what = "missing" if name in expected else "unexpected"
            raise MtkitError(f"{path}: {name} is {what}", hint)
        if tensors[name].shape != expected[name]:
            raise MtkitError(
                f"{path}: {name} has shape {list(tensors[name].shape)}, expected "
                f"{list(expected[name])}",
                hint,
            )
