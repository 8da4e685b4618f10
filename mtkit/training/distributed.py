"""Several processes that train one model: launched by torchrun, joined by sums."""

import os
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import PrefixStore

from mtkit.devices import read_device
from mtkit.errors import MtkitError
from mtkit.network.device import find_device
from mtkit.training.launch import FIX_AND_RERUN, LostProcessError, end_worker
from mtkit.training.watch import Progress, Watch

Item = TypeVar("Item")

_LOST_PEER = re.compile(
    "(closed|reset) by peer|broken pipe|remote process|communicator was aborted|timed out",
    re.IGNORECASE,
)
_LONGER_THAN_ANY_WAIT = timedelta(days=7)
"""The watch ends what waits in vain, and can say for whom; torch's own time-outs can't."""
_GATHERING_SECONDS = 300
_POLLING_SECONDS = 0.02


@dataclass(frozen=True)
class Processes:
    """This process among those that train together.

    Attributes:
        rank: This process, from 0.
        count: How many there are.
        device: Where this one computes.
        progress: How far it has come, for the others to see.
        watch: The thread that looks after the others; None where torchrun isn't at work.
    """

    rank: int
    count: int
    device: torch.device
    progress: Progress = field(default_factory=Progress, compare=False)
    watch: Watch | None = field(default=None, compare=False)

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def flatten_gradients(self, weights: Sequence[Tensor]) -> Tensor | None:
        """Returns this process's gradients as one tensor; None where there is no other process."""
        if self.count == 1:
            return None
        return torch.cat(
            [
                (torch.zeros_like(weight) if weight.grad is None else weight.grad).reshape(-1)
                for weight in weights
            ]
        )

    def sum_update(self, weights: Sequence[Tensor], flat: Tensor | None, values: Tensor) -> None:
        """Sets every process's gradients, and its values, to the sum of all processes'.

        One flat all-reduce after the last micro-batch: accumulation costs no communication, and
        nothing inside the backward pass waits for another process. On a GPU both sums are queued;
        `read` waits for them.

        Args:
            weights: Whose gradients.
            flat: What `flatten_gradients` returned; it becomes the gradients' memory.
            values: Any numbers of the update; written into.
        """
        if flat is None:
            return
        with self._waiting(synchronizes=False):
            dist.all_reduce(values)
            dist.all_reduce(flat)
        summed = torch.split(flat, [weight.numel() for weight in weights])
        for weight, gradient in zip(weights, summed, strict=True):
            weight.grad = gradient.view_as(weight)

    def read(self, values: Tensor) -> list[float]:
        """Returns what a tensor holds; a GPU's is waited for."""
        with self._waiting(synchronizes=False):
            read: list[float] = values.tolist()
        return read

    def sum(self, values: Tensor) -> Tensor:
        """Returns the sum of all processes' values; every process must call it."""
        if self.count > 1:
            with self._waiting():
                dist.all_reduce(values)
        return values

    def any(self, is_so: bool) -> bool:
        """Checks that it is so in at least one process; every process must call it."""
        if self.count == 1:
            return is_so
        return bool(self.sum(torch.tensor(float(is_so), device=self.device)).item() > 0)

    def shard(self, items: Sequence[Item]) -> list[Item]:
        """Returns this process's part of a list that all of them hold."""
        return list(items[self.rank :: self.count])

    def gather(self, part: list[Item]) -> list[Item]:
        """Returns the whole list, in order, from the parts that `shard` dealt out."""
        if self.count == 1:
            return part
        parts: list[list[Item]] = [[] for _ in range(self.count)]
        with self._waiting():
            dist.all_gather_object(parts, part)
        # Round-robin, as dealt: the first of every part, then the second of every part, and so on.
        return [
            items[index]
            for index in range(max(map(len, parts)))
            for items in parts
            if index < len(items)
        ]

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Copies the first process's tensors into every process's."""
        if self.count == 1:
            return
        with self._waiting():
            for tensor in tensors:
                # The weights of a frozen part and of a moment alike: any tensor that lies flat.
                dist.broadcast(tensor, src=0)

    def broadcast_object(self, item: Item) -> Item:
        """Returns the first process's item in every process."""
        if self.count == 1:
            return item
        items: list[Any] = [item]
        with self._waiting():
            dist.broadcast_object_list(items, src=0, device=self.device)
        received: Item = items[0]
        return received

    def barrier(self) -> None:
        """Returns once every process has come here."""
        if self.count > 1:
            with self._waiting():
                dist.barrier()

    @contextmanager
    def _waiting(self, *, synchronizes: bool = True) -> Iterator[None]:
        """Lets the watch know that this process waits; names a process that was lost.

        With `synchronizes` it waits for a GPU as well.
        """
        with self.progress.waiting():
            try:
                yield
                if synchronizes and self.device.type == "cuda":
                    # Torch only puts a sum in line: who waits must be seen to wait.
                    torch.cuda.current_stream(self.device).synchronize()
            except RuntimeError as error:
                if _LOST_PEER.search(str(error)) is None:
                    raise
                lost = "" if self.watch is None else self.watch.name_lost()
                message = f"lost {lost}" if lost else f"lost the other processes: {error}"
                raise LostProcessError(message, FIX_AND_RERUN) from error


def join_processes(device: str = "auto", *, stuck_after_seconds: float = float("inf")) -> Processes:
    """Returns this process among torchrun's workers, or alone.

    Args:
        device: `auto` takes a GPU where there is one; else a torch device.
        stuck_after_seconds: A process that makes no progress for longer counts as stuck.

    Raises:
        MtkitError: The device isn't there.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    chosen = choose_device(device, local_rank=int(os.environ.get("LOCAL_RANK", "0")))
    if "MASTER_ADDR" not in os.environ or dist.is_initialized():
        return Processes(rank, count, chosen)
    hosts = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    store = _connect(hosts=hosts)
    name = _meet(store, rank, count)
    progress = Progress()
    progress.beat("joining the other processes")
    # A connection of its own: the training's may be waiting.
    beside = PrefixStore(f"{name}/watch", _connect(hosts=False))
    watch = Watch(beside, rank, count, progress, end_worker)
    watch.start(stuck_after_seconds)
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    dist.init_process_group(
        "nccl" if chosen.type == "cuda" else "gloo",
        store=PrefixStore(f"{name}/training", store),
        rank=rank,
        world_size=count,
        timeout=_LONGER_THAN_ANY_WAIT,
        device_id=chosen if chosen.type == "cuda" else None,
    )
    dist.barrier()
    return Processes(rank, count, chosen, progress, watch)


def _connect(*, hosts: bool) -> TCPStore:
    """Returns a connection to the store that torchrun's agent keeps, or the first process hosts."""
    return TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        is_master=hosts,
        timeout=timedelta(seconds=_GATHERING_SECONDS),
    )


def _meet(store: TCPStore, rank: int, count: int) -> str:
    """Returns a name that the processes of this start share, and those of no earlier start had.

    torchrun's store outlives processes that are started again, and with it the addresses of those
    that died. Its own count of restarts is no such name: each machine's agent has another.
    """
    mine = uuid.uuid4().hex
    if rank:
        store.set(f"hello/{rank}", mine)
        try:
            name = str(store.get(f"welcome/{mine}").decode())
        except dist.DistStoreError as error:
            raise MtkitError(f"process 0 did not answer process {rank}", FIX_AND_RERUN) from error
        store.set(f"ready/{name}/{rank}", "")
        return name
    missing = set(range(1, count))
    give_up_at = time.monotonic() + _GATHERING_SECONDS
    while missing:
        if time.monotonic() > give_up_at:
            ranks = ", ".join(map(str, sorted(missing)))
            raise MtkitError(f"of {count} processes, {ranks} did not join", FIX_AND_RERUN)
        for other in sorted(missing):
            # What says hello may be one that has died; only one that lives answers.
            if store.check([f"hello/{other}"]):
                store.set(f"welcome/{store.get(f'hello/{other}').decode()}", mine)
            if store.check([f"ready/{mine}/{other}"]):
                missing.discard(other)
        time.sleep(_POLLING_SECONDS)
    return mine


def leave_processes(processes: Processes, *, has_ended: bool) -> None:
    """Closes what `join_processes` opened.

    Args:
        processes: What it returned.
        has_ended: Whether this process came to its end; the others miss one that didn't.
    """
    if processes.watch is not None and has_ended:
        processes.watch.stop()
    # After a fault the others may be inside a sum, and closing would wait for them.
    if has_ended and dist.is_initialized():
        dist.destroy_process_group()


def choose_device(device: str, *, local_rank: int = 0) -> torch.device:
    """Returns the device that a name stands for; `auto` is a GPU where there is one.

    Raises:
        MtkitError: No such device here.
    """
    if read_device(device)[0] == "cuda" and not torch.cuda.is_available():
        raise MtkitError("this machine has no GPU that torch can use", "omit --gpus")
    found = find_device(device)
    return torch.device("cuda", local_rank) if found == torch.device("cuda") else found
