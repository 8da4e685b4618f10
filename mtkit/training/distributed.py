"""Several processes that train one model: launched by torchrun, joined by gradient sums."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mtkit.errors import MtkitError

Item = TypeVar("Item")


@dataclass(frozen=True)
class Processes:
    """This process's place among those that train together.

    Attributes:
        rank: This process, from 0.
        count: How many there are.
        device: Where this one computes.
    """

    rank: int
    count: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.rank == 0

    def sum_gradients(self, model: nn.Module) -> None:
        """Leaves in every process the sum of all processes' gradients.

        One flat all-reduce after the last micro-batch: accumulation costs no communication, and
        nothing inside the backward pass waits for another process.
        """
        if self.count == 1:
            return
        parameters = [p for p in model.parameters() if p.requires_grad]
        flat = torch.cat(
            [(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in parameters]
        )
        dist.all_reduce(flat)
        for parameter, summed in zip(
            parameters, flat.split([p.numel() for p in parameters]), strict=True
        ):
            parameter.grad = summed.view_as(parameter)

    def sum(self, values: Tensor) -> Tensor:
        """Returns the sum of all processes' values; every process must call it."""
        if self.count > 1:
            dist.all_reduce(values)
        return values

    def share(self, items: Sequence[Item]) -> list[Item]:
        """Returns this process's part of a list that all of them hold."""
        return list(items[self.rank :: self.count])

    def gather(self, part: list[Item]) -> list[Item]:
        """Returns the whole list, in order, from the parts that `share` dealt out."""
        if self.count == 1:
            return part
        parts: list[list[Item]] = [[] for _ in range(self.count)]
        dist.all_gather_object(parts, part)
        # Round-robin, as dealt: the first of every part, then the second of every part, and so on.
        return [
            items[place]
            for place in range(max(map(len, parts)))
            for items in parts
            if place < len(items)
        ]

    def wait(self) -> None:
        """Returns once every process has come here."""
        if self.count > 1:
            dist.barrier()


def join_processes(device: str = "auto") -> Processes:
    """Returns this process's place: among torchrun's workers, or alone.

    Args:
        device: `auto` takes a GPU where there is one; else a torch device.

    Raises:
        MtkitError: The device isn't there.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    chosen = choose_device(device, local_rank=int(os.environ.get("LOCAL_RANK", "0")))
    if count > 1 and not dist.is_initialized():
        if chosen.type == "cuda":
            torch.cuda.set_device(chosen)
            dist.init_process_group("nccl", device_id=chosen)
        else:
            dist.init_process_group("gloo")
    return Processes(rank, count, chosen)


def leave_processes() -> None:
    """Closes what `join_processes` opened."""
    if dist.is_initialized():
        dist.destroy_process_group()


def choose_device(device: str, *, local_rank: int = 0) -> torch.device:
    """Returns the device that a name stands for; `auto` is a GPU where there is one.

    Raises:
        MtkitError: No such device here.
    """
    has_gpu = torch.cuda.is_available()
    if device == "auto":
        device = "cuda" if has_gpu else "cpu"
    if device.startswith("cuda") and not has_gpu:
        raise MtkitError("this machine has no GPU that torch can use", "leave --gpus out")
    return torch.device("cuda", local_rank) if device == "cuda" else torch.device(device)


def launch(arguments: Sequence[str], *, num_processes: int, needs_gpus: bool) -> int:
    """Runs `mtkit` with these arguments in several processes; returns their exit status.

    Raises:
        MtkitError: More GPUs are wanted than this machine has.
    """
    num_gpus = torch.cuda.device_count()
    if needs_gpus and num_gpus < num_processes:
        found = f"{num_gpus} GPU{'s' * (num_gpus != 1)}" if num_gpus else "no GPU"
        raise MtkitError(
            f"--gpus {num_processes}: this machine has {found} that torch can use",
            f"use --gpus {num_gpus}"
            if num_gpus
            else f"train on its processor: leave --gpus out, or --processes {os.cpu_count() or 1}",
        )
    threads = max(1, (os.cpu_count() or 1) // num_processes)
    environment = {"OMP_NUM_THREADS": str(threads), **os.environ}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={num_processes}", "--module", "mtkit", *arguments]
    with subprocess.Popen(command, env=environment) as torchrun:
        while True:
            try:
                return torchrun.wait()
            except KeyboardInterrupt:
                # The terminal sent the signal to torchrun as well; it saves and ends by itself.
                continue
