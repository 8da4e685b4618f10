"""The plan of a training (`--dry-run`): how updates are split, memory and time."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from mtkit.console import say, warn
from mtkit.data.batches.updates import TrainingBatches, find_epoch
from mtkit.data.prepared import PreparedData
from mtkit.network.device import limit_threads, peak_memory_bytes
from mtkit.training.build_learner import build_learner, build_objective
from mtkit.training.distributed import ProcessGroup, choose_device
from mtkit.training.learner import Learner
from mtkit.training.progress import count_validations, describe_parameters, describe_stages
from mtkit.training.schedule import note_warmup
from mtkit.training.sharding import MOMENTS
from mtkit.training.training_run import TrainingRun
from mtkit.training.update import Objective, RankRequests, Updater
from mtkit.units import format_duration, format_memory, plural

_NUM_UPDATES_SAMPLED = 50
_NUM_UPDATES_TIMED = 3
_BYTES_PER_WEIGHT = 4


@dataclass(frozen=True)
class BatchPlan:
    """How an update is composed and split: means over updates from a whole epoch.

    Attributes:
        micro_batch_tokens: Limit of one pass, in tokens of the longer side, with padding.
        num_updates: Updates of the epoch.
        num_examples: Sentence pairs of an update, or blocks of text.
        num_source_tokens: Real tokens, including `</s>`; None for text in one language.
        num_target_tokens: Likewise; those of the text.
        num_passes: Passes of the rank with most; the others wait for it.
        padding: Share of padding in the passes.
    """

    num_processes: int
    micro_batch_tokens: int
    num_updates: int
    num_examples: float
    num_source_tokens: float | None
    num_target_tokens: float
    num_passes: float
    padding: float

    def describe(self, batch_tokens: int, device: str) -> str:
        """Returns the size of one update as a line."""
        side = ""
        tokens = f"{self.num_target_tokens:,.0f} tokens in {self.num_examples:,.0f} blocks"
        if self.num_source_tokens is not None:
            side = " per side"
            tokens = (
                f"{self.num_source_tokens:,.0f} source + {self.num_target_tokens:,.0f} target "
                f"tokens in {self.num_examples:,.0f} pairs"
            )
        return (
            f"one update: {tokens} (means; at most {batch_tokens:,}{side}) = "
            f"{self.num_processes} x {device} x {plural(self.num_passes, 'pass', decimals=1)} of "
            f"at most {self.micro_batch_tokens:,} tokens{side}; {100 * self.padding:.1f} % padding"
        )


def plan_batches(
    batches: TrainingBatches[Any],
    *,
    num_processes: int,
    micro_batch_tokens: int,
) -> BatchPlan:
    """Returns how updates of the first epoch are composed and split."""
    updates = batches.plan_epoch(find_epoch(batches.plan_epoch))
    positions = np.unique(np.linspace(0, len(updates) - 1, _NUM_UPDATES_SAMPLED).astype(np.int64))
    totals, counts, tokens, slots = [], [], 0, 0
    for position in positions.tolist():
        examples = updates[position]
        sides = batches.lengths(examples)
        # Text in one language has one side.
        totals.append([lengths.sum() for lengths in sides.values()])
        parts = batches.split(examples, num_processes, micro_batch_tokens)
        counts.append((len(examples), max(map(len, parts))))
        tokens += sum(micro_batch.num_tokens for part in parts for micro_batch in part)
        slots += sum(micro_batch.num_slots for part in parts for micro_batch in part)
    num_examples, num_passes = np.mean(counts, axis=0).tolist()
    *num_source_tokens, num_target_tokens = np.mean(totals, axis=0).tolist()
    return BatchPlan(
        num_processes=num_processes,
        micro_batch_tokens=micro_batch_tokens,
        num_updates=len(updates),
        num_examples=num_examples,
        num_source_tokens=num_source_tokens[0] if num_source_tokens else None,
        num_target_tokens=num_target_tokens,
        num_passes=num_passes,
        padding=1.0 - tokens / slots,
    )


def rehearse(run: TrainingRun, *, num_processes: int, num_machines: int, device: str) -> None:
    """Prints a training's size, memory and time, measured by a few updates; writes nothing.

    Args:
        run: What is to be trained.
        num_processes: Processes on this machine.
        num_machines: Machines that train together, each with as many processes.
        device: `auto` is a GPU if there is one.
    """
    training = run.recipe.training
    processes = ProcessGroup(0, 1, choose_device(device))
    limit_threads(num_processes)
    num_processes *= num_machines
    learner = build_learner(run, processes)
    say(describe_parameters(learner.model))
    objective = build_objective(run, learner, processes)
    updater = Updater(
        training,
        objective,
        learner,
        processes,
        seed=run.recipe.seed,
        max_tokens_key=run.recipe.data.max_tokens_key,
    )
    limit = updater.fit_micro_batch(num_processes)
    batches = plan_batches(objective.batches, num_processes=num_processes, micro_batch_tokens=limit)
    if note := note_warmup(training.schedule, max_steps=training.max_steps):
        warn(note)
    say(batches.describe(training.batch_tokens, processes.device.type))
    stages = describe_stages(training, run.recipe.data.train)
    for line in stages.values():
        say(line)
    if not stages:
        epochs = training.max_steps / batches.num_updates
        say(
            f"one epoch: {_count_examples(run.data)} in {batches.num_updates:,} updates; "
            f"{training.max_steps:,} updates are {epochs:,.1f} epochs"
        )
    seconds = _time_updates(updater, objective, num_processes, limit)
    say(_describe_memory(learner, processes, num_processes if training.shard else 1))
    updates = seconds * training.max_steps
    validation = objective.estimate_validation() / num_processes
    num_validations = count_validations(training, 0, seconds)
    total = updates + num_validations * validation
    say(
        f"time: about {format_duration(total)}: {seconds:.2g} s per update, "
        f"{batches.num_target_tokens / seconds:,.0f} target tokens/s, {format_duration(updates)} "
        f"for {training.max_steps:,} updates; {validation:.2g} s per validation, "
        f"{format_duration(num_validations * validation)} for {num_validations:,} "
        f"(from {_NUM_UPDATES_TIMED} updates and a part of a validation"
        + (f" in one process, divided by {num_processes})" if num_processes > 1 else ")")
    )
    say("nothing was trained; to train, run the same command without --dry-run")


def _count_examples(data: PreparedData) -> str:
    """Returns the number of examples in the data of the first updates, in words."""
    if data.documents is None:
        return f"{len(data.train):,} pairs"
    if data.train_short is None:
        return f"{len(data.train):,} blocks"
    return f"{len(data.train_short.store):,} short blocks"


def _time_updates(
    updater: Updater, objective: Objective[Any, Any], num_processes: int, limit: int
) -> float:
    """Returns the seconds of an update, from a few in this process; the first is a warm-up."""
    epoch = position = 0
    elapsed = []
    for step in range(_NUM_UPDATES_TIMED + 1):
        began_at = time.monotonic()
        update = objective.batches.update(epoch, position, limit)
        updater.make(step + 1, update, rate=0.0, requests=RankRequests())
        epoch, position = update.following
        elapsed.append(time.monotonic() - began_at)
    return float(np.median(elapsed[1:])) / num_processes


def _describe_memory(learner: Learner[nn.Module], processes: ProcessGroup, num_shards: int) -> str:
    fixed = sum(t.numel() for t in (*learner.tensors(), *learner.weights)) * _BYTES_PER_WEIGHT
    where = "GPU" if processes.device.type == "cuda" else "process"
    # This one process has all moments.
    moments = sum(state[name].numel() for state in learner.states for name in MOMENTS)
    elsewhere = moments * _BYTES_PER_WEIGHT * (num_shards - 1) // num_shards
    peak = peak_memory_bytes(processes.device) - elsewhere
    share = f"1/{num_shards} of " if num_shards > 1 else ""
    return (
        f"memory: {format_memory(fixed - elsewhere)} for weights, gradients and {share}Adam's "
        f"moments; peak {format_memory(peak)} in one {where}, everything included"
    )
