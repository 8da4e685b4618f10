"""A rank that makes a few sharded updates of a small network, once for each of `CASES`."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Indices
from mtkit.data.batches.updates import TrainingBatches
from mtkit.recipe import load_recipe
from mtkit.training.distributed import ProcessGroup, leave_processes
from mtkit.training.learner import Learner, pack_moments
from mtkit.training.loss import LossSums
from mtkit.training.loss_scale import LossScale
from mtkit.training.update import Objective, RankRequests, Updater

from .one_rank import join

NUM_RANKS, NUM_UPDATES, RATE = 4, 5, 0.02
NUM_EXAMPLES = 32
CUTS = (0, 15, 16, 32, 32)
"""Which examples each rank has: the last has none."""
Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Case:
    """Settings of updates, and what happens in them.

    Attributes:
        frozen: Names of weights that don't learn.
        fault: Called with rank, update from 0 and number of examples; returns a factor of the loss.
    """

    overrides: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    dtype: torch.dtype = torch.float64
    precision: str = "fp32"
    fault: Callable[[int, int, int], float] = lambda _rank, _update, _num_examples: 1.0


def lose_a_number(rank: int, update: int, _: int) -> float:
    """Makes the second update's loss NaN on one rank."""
    return torch.nan if (rank, update) == (2, 1) else 1.0


def run_out_of_memory(rank: int, update: int, num_examples: int) -> float:
    """Lets one rank hold at most four examples from the third update on."""
    if rank == 0 and update >= 2 and num_examples > 4:
        raise torch.OutOfMemoryError("CUDA out of memory: injected")
    return 1.0


DECAY, CLIP = "training.optimizer.weight_decay=0.3", "training.clipping.max_norm=0.2"
CASES = {
    "clipped": Case((DECAY, CLIP)),
    "frozen": Case((DECAY,), frozen=("0.weight", "2.bias")),
    "averaged": Case(("training.moving_average.decay=0.6",)),
    "NaN": Case((DECAY,), fault=lose_a_number),
    "short of memory": Case((CLIP,), fault=run_out_of_memory),
    "bf16": Case((DECAY, CLIP), dtype=torch.float32, precision="bf16"),
    "fp16": Case((DECAY, CLIP), dtype=torch.float32, precision="fp16"),
}


def build_network() -> nn.Sequential:
    """Returns a network of which no rank's part begins and ends with a weight."""
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 5))


def draw(update: int) -> Batch:
    """Returns all inputs and outputs of an update."""
    generator = torch.Generator().manual_seed(update)
    sizes = (NUM_EXAMPLES, 20), (NUM_EXAMPLES, 5)
    inputs, outputs = (
        torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes
    )
    return inputs, outputs


def measure(model: nn.Module, batch: Batch) -> Tensor:
    """Returns the sum of squared errors."""
    inputs, outputs = (tensor.to(next(model.parameters()).dtype) for tensor in batch)
    return (model(inputs) - outputs).square().sum()


class _Batches(TrainingBatches[Batch]):
    """One update an epoch."""

    longest = 1

    def plan_epoch(self, _: int) -> list[Indices]:
        return [np.arange(NUM_EXAMPLES)]

    def split(self, examples: Indices, num_processes: int, limit: int) -> list[list[MicroBatch]]:
        parts = [examples[first:last] for first, last in pairwise(CUTS)]
        cut = [np.split(part, range(limit, len(part), limit)) for part in parts]
        return [[MicroBatch(one, *[len(one)] * 3) for one in ones if len(one)] for ones in cut]

    def lengths(self, examples: Indices) -> dict[str, Indices]:
        return {"text": np.ones_like(examples)}

    def count_target_tokens(self, examples: Indices, _: int) -> int:
        return len(examples)

    def gather(self, micro_batch: MicroBatch, epoch: int) -> Batch:
        inputs, outputs = draw(epoch)
        return inputs[micro_batch.sentences], outputs[micro_batch.sentences]

    def largest(self, limit: int) -> Batch:
        raise NotImplementedError


def run_case(case: Case, processes: ProcessGroup, *, shard: bool) -> dict[str, Tensor]:
    """Returns the weights after all updates, all moments, and what each update returned."""
    recipe = load_recipe(
        "phrasebook-en-de", [f"training.shard={str(shard).lower()}", *case.overrides]
    )
    model = build_network().to(case.dtype)
    for name, weight in model.named_parameters():
        weight.requires_grad_(name not in case.frozen)
    learner = Learner.of(model, recipe.training, precision=case.precision, processes=processes)
    assert (learner.shards is not None) == shard
    batches = _Batches(rank=processes.rank, num_processes=processes.count)
    step = [0]

    def lose(model: nn.Module, batch: Batch) -> LossSums:
        loss = measure(model, batch) * case.fault(processes.rank, step[0], len(batch[0]))
        return LossSums(loss, loss.detach())

    objective = Objective(learner, batches, None, lose)
    updater = Updater(
        recipe.training, objective, learner, processes, seed=1, max_tokens_key="data.max_tokens"
    )
    limit, found = NUM_EXAMPLES, []
    # Of the first update gradients overflow.
    scale = LossScale(2.0**20) if case.precision == "fp16" else None
    for number in range(NUM_UPDATES):
        step[0] = number
        update = batches.update(number, 0, limit)
        result = updater.make(
            number + 1, update, rate=RATE, requests=RankRequests(), loss_scale=scale
        )
        limit, scale = result.micro_batch_tokens, result.loss_scale
        factor = 1.0 if scale is None else scale.factor
        found.append([result.loss, result.gradient_norm, result.is_applied, limit, factor])
    num_moments = sum(state["exp_avg"].numel() for state in learner.states)
    tensors = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    if learner.average is not None:
        named = zip(
            [name for name, _ in model.named_parameters()], learner.average.tensors, strict=True
        )
        tensors |= {f"average.{name}": average for name, average in named}
    if learner.shards is not None:
        learner.shards.gather_moments(learner.states)
    if processes.is_first:
        tensors |= pack_moments(learner)
    return {
        **tensors,
        "results": torch.tensor(found, dtype=torch.float64),
        "num_moments": torch.tensor(num_moments),
    }


def main(folder: str, *place: str) -> None:
    """Runs all cases, those in 16 bits also without shards, and saves what they return."""
    processes = join(*place)
    tensors = {}
    for name, case in CASES.items():
        found = run_case(case, processes, shard=True)
        tensors |= {f"{name}/{key}": tensor for key, tensor in found.items()}
    for name in ("bf16", "fp16"):
        found = run_case(CASES[name], processes, shard=False)
        tensors |= {f"{name} whole/{key}": tensor for key, tensor in found.items()}
    save_file(tensors, Path(folder, f"rank{processes.rank}.safetensors"))
    leave_processes(processes, has_ended=True)
