"""Chooses how many processes train on a CPU when the command line doesn't say.

Threads of one process wait for each other thousands of times per update. If another program uses a
core for a while, all of them stall. Processes with one thread each wait once per update, and lose
only that core's share (docs/performance.md).
"""

import os
import socket
import sys
from collections.abc import Callable
from dataclasses import replace

import torch

from mtkit.console import say, warn
from mtkit.cpus import count_cpus, measure_load
from mtkit.data.prepared import PreparedData, open_prepared
from mtkit.memory import free_memory_bytes
from mtkit.model.costs import bytes_of_weights, bytes_per_token, count_trained
from mtkit.network.device import choose_fastest_precision, count_threads
from mtkit.pipeline.hardware import Hardware
from mtkit.recipe import Recipe
from mtkit.recipe.model import Model
from mtkit.recipe.training import Training
from mtkit.training.checkpoint_folder import CheckpointFolder
from mtkit.training.train import is_trained
from mtkit.units import format_memory, plural
from mtkit.workspace import Workspace

_MIN_TOKENS = 1_024
"""Minimum tokens per side of an update and process: with fewer, operations cost more than their
arithmetic."""
_PROCESS_BYTES = 400 << 20
"""Of PyTorch, its kernels and the data, besides the network's."""
_FREE_SHARE = 0.5
"""Of the free memory: an estimate may be wrong, and other programs need some."""
_BUSY = 0.5
"""CPUs kept busy by other programs above which threads deserve a warning."""


def choose_processes(recipe: Recipe, workspace: Workspace, hardware: Hardware) -> Hardware:
    """Returns the hardware with the number of processes for a training on this CPU.

    The command line takes precedence, and so does a GPU. Otherwise `training.processes` decides.
    With `auto`, a resumed training keeps its number of processes; a new one takes one per core. The
    choice and its reason are printed. A finished training needs none.
    """
    if hardware.device != "auto" or hardware.num_nodes > 1 or torch.cuda.is_available():
        return hardware
    if is_trained(recipe, workspace):
        return hardware
    num_cores = count_threads()
    last = _read_last(workspace)
    if recipe.training.processes != "auto":
        count, why = recipe.training.processes, "training.processes"
    elif last is not None:
        count, why = last, "as in the last run"
        if last > count_cpus():
            count, why = num_cores, f"the last run had {last}, but there are {num_cores} cores"
        elif last == 1:
            _warn_of_load(num_cores)
            return hardware
    else:
        count, why = _choose_count(
            recipe.training,
            num_cores,
            lambda: _estimate_memory(
                recipe.model, recipe.training, open_prepared(recipe, workspace)
            ),
        )
    if count > 1 or why:
        threads = max(1, num_cores // count)
        say(f"training in {plural(count, 'process')} of {plural(threads, 'thread')}: {why}")
    return hardware if count == 1 else replace(hardware, num_processes=count, device="cpu")


def _read_last(workspace: Workspace) -> int | None:
    """Returns the number of processes of a training's last run on this CPU; None for a new one."""
    record = workspace.read_manifest().get("train", {})
    if record.get("device") != "cpu" or not CheckpointFolder(workspace.checkpoints).list():
        return None
    return max(1, int(record["processes"]) // int(record.get("machines", 1)))


def _choose_count(
    training: Training, num_cores: int, estimate_memory: Callable[[], int]
) -> tuple[int, str]:
    """Returns the number of processes of a new training, and the reason, if any."""
    # A set number of threads is a decision on the cores. Other systems weren't measured.
    if num_cores == 1 or "OMP_NUM_THREADS" in os.environ or sys.platform != "linux":
        return 1, ""
    if not _has_loopback():
        return 1, "processes can't connect to each other on localhost"
    max_processes = min(num_cores, training.batch_tokens // _MIN_TOKENS)
    if max_processes < 2:
        return 1, ""
    each, free = estimate_memory(), free_memory_bytes()
    if free is not None and max_processes * each > _FREE_SHARE * free:
        fitting = max(1, int(_FREE_SHARE * free) // each)
        return _fill(num_cores, fitting), (
            f"{plural(max_processes, 'process')} would take "
            f"{format_memory(max_processes * each)}, more than half of the "
            f"{format_memory(free)} of free memory"
        )
    return _fill(num_cores, max_processes), (
        "faster than threads when other programs are running (training.processes)"
    )


def _has_loopback() -> bool:
    """Checks that processes on this machine can connect to each other."""
    try:
        with (
            socket.create_server(("localhost", 0)) as server,
            socket.create_connection(server.getsockname(), timeout=5),
        ):
            return True
    except OSError:
        return False


def _fill(num_cores: int, max_processes: int) -> int:
    """Returns the largest number of processes whose threads leave at most one core idle."""
    return next(count for count in range(max_processes, 0, -1) if num_cores % count <= 1)


def _estimate_memory(model: Model, training: Training, data: PreparedData) -> int:
    """Returns a slightly high estimate of the bytes of one training process."""
    precision = training.precision
    is_half = (
        choose_fastest_precision(torch.device("cpu")) if precision == "auto" else precision
    ) != "fp32"
    sizes = data.tokenizer.source_vocab_size, data.tokenizer.target_vocab_size
    weights, num_trainable, num_added = count_trained(model, training, sizes)
    of_weights = bytes_of_weights(
        weights.total + num_added,
        num_trainable,
        is_half=is_half,
        has_average=training.moving_average is not None,
    )
    tokens = training.batch_tokens
    if training.micro_batch_tokens != "auto":
        tokens = min(tokens, training.micro_batch_tokens)
    per_token = bytes_per_token(model, is_half=is_half, recompute=training.recompute)
    return _PROCESS_BYTES + of_weights + tokens * sum(per_token)


def _warn_of_load(num_cores: int) -> None:
    """Warns of other programs if a training resumes in the threads of one process."""
    if num_cores == 1 or "OMP_NUM_THREADS" in os.environ:
        return
    load = measure_load()
    if load >= _BUSY:
        warn(
            f"other programs keep {load:.1f} of {num_cores} cores busy, and this training resumes "
            f"in one process, whose threads wait for each other; --processes {num_cores} would be "
            "faster, with the same updates up to rounding"
        )
