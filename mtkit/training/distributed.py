"""Processes that train one model together: launched by torchrun, joined by all-reduce."""

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
from mtkit.training.launch import FIX_AND_RERUN, LostProcessError, end_worker, find_launcher
from mtkit.training.watchdog import Progress, Watchdog

Item = TypeVar("Item")

_LOST_PEER = re.compile(
    "(closed|reset) by peer|broken pipe|remote process|communicator was aborted|timed out",
    re.IGNORECASE,
)
_NO_TIMEOUT = timedelta(days=7)
"""The watchdog ends hanging processes and names the lost one; torch's own timeouts can't."""
_GATHERING_SECONDS = 300
_POLLING_SECONDS = 0.02
# torch 2.13 renamed both.
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


@dataclass(frozen=True)
class ProcessGroup:
    """This process among those that train together.

    Attributes:
        device: This rank's device.
        progress: This rank's progress, published for the others.
        watch: The watchdog thread; None without torchrun.
    """

    rank: int
    count: int
    device: torch.device
    progress: Progress = field(default_factory=Progress, compare=False)
    watch: Watchdog | None = field(default=None, compare=False)

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def flatten_gradients(self, weights: Sequence[Tensor]) -> Tensor | None:
        """Returns this rank's gradients as one tensor; None with a single process."""
        if self.count == 1:
            return None
        return torch.cat(
            [
                (torch.zeros_like(weight) if weight.grad is None else weight.grad).reshape(-1)
                for weight in weights
            ]
        )

    def sum_update(self, weights: Sequence[Tensor], flat: Tensor | None, values: Tensor) -> None:
        """Sets every rank's gradients, and `values` in place, to the sum over all ranks.

        One flat all-reduce after the last micro-batch: accumulation costs no communication, and
        nothing in the backward pass waits for another rank. On a GPU both all-reduces are queued;
        `read` waits for them. `flat` comes from `flatten_gradients` and becomes the gradients'
        memory.
        """
        if flat is None:
            return
        self.sum(values, synchronizes=False)
        self.sum(flat, synchronizes=False)
        summed = torch.split(flat, [weight.numel() for weight in weights])
        for weight, gradient in zip(weights, summed, strict=True):
            weight.grad = gradient.view_as(weight)

    def read(self, values: Tensor) -> list[float]:
        """Returns a tensor's values; waits for the GPU."""
        with self._waiting(synchronizes=False):
            read: list[float] = values.tolist()
        return read

    def sum(self, values: Tensor, *, synchronizes: bool = True) -> Tensor:
        """Returns the values, set to the sum over all ranks; every rank must call it.

        Without `synchronizes` a GPU only queues this; `read` waits for it.
        """
        if self.count > 1:
            with self._waiting(synchronizes=synchronizes):
                dist.all_reduce(values)
        return values

    def reduce_scatter(self, flat: Tensor) -> Tensor:
        """Returns this rank's part of a tensor, set to the sum over all ranks; a GPU queues it.

        The tensor has equal parts, in the order of ranks. The other parts are undefined afterwards.
        """
        part = flat.chunk(self.count)[self.rank]
        with self._waiting(synchronizes=False):
            _reduce_scatter(part, flat)
        return part

    def all_gather(self, flat: Tensor, *, synchronizes: bool = True) -> None:
        """Copies each rank's part of a tensor to all ranks; every rank must call it."""
        with self._waiting(synchronizes=synchronizes):
            _all_gather(flat, flat.chunk(self.count)[self.rank])

    def any(self, condition: bool) -> bool:
        """Checks that a condition holds on at least one rank; every rank must call it."""
        if self.count == 1:
            return condition
        return bool(self.sum(torch.tensor(float(condition), device=self.device)).item() > 0)

    def shard(self, items: Sequence[Item]) -> list[Item]:
        """Returns this rank's part of a list that all ranks hold."""
        return list(items[self.rank :: self.count])

    def gather(self, part: list[Item]) -> list[Item]:
        """Returns the whole list, in order, from the parts that `shard` returned."""
        if self.count == 1:
            return part
        parts: list[list[Item]] = [[] for _ in range(self.count)]
        with self._waiting():
            dist.all_gather_object(parts, part)
        # Round-robin, as in `shard`: the first of every part, then the second of every part, and so
        # on.
        return [
            items[index]
            for index in range(max(map(len, parts)))
            for items in parts
            if index < len(items)
        ]

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Copies the first rank's tensors to every rank."""
        if self.count == 1:
            return
        with self._waiting():
            for tensor in tensors:
                # Any contiguous tensor: weights of frozen parts and moments too.
                dist.broadcast(tensor, src=0)

    def broadcast_object(self, item: Item) -> Item:
        """Returns the first rank's item on every rank."""
        if self.count == 1:
            return item
        items: list[Any] = [item]
        with self._waiting():
            dist.broadcast_object_list(items, src=0, device=self.device)
        received: Item = items[0]
        return received

    def barrier(self) -> None:
        """Returns once every rank has called it."""
        if self.count > 1:
            with self._waiting():
                dist.barrier()

    @contextmanager
    def _waiting(self, *, synchronizes: bool = True) -> Iterator[None]:
        """Marks this rank as waiting for the watchdog; names a lost rank."""
        # May synchronize the GPU.
        with self.progress.waiting():
            try:
                yield
                if synchronizes and self.device.type == "cuda":
                    # torch only queues the all-reduce: the watchdog must see who waits.
                    torch.cuda.current_stream(self.device).synchronize()
            except RuntimeError as error:
                if _LOST_PEER.search(str(error)) is None:
                    raise
                lost = "" if self.watch is None else self.watch.name_lost()
                message = f"lost {lost}" if lost else f"lost the other processes: {error}"
                raise LostProcessError(message, FIX_AND_RERUN) from error


def join_processes(
    device: str = "auto", *, stuck_after_seconds: float = float("inf")
) -> ProcessGroup:
    """Returns the group of torchrun's workers, or of this process alone.

    `auto` is a GPU if there is one. A rank without progress for `stuck_after_seconds` counts as
    stuck.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    chosen = choose_device(device, local_rank=int(os.environ.get("LOCAL_RANK", "0")))
    if "MASTER_ADDR" not in os.environ or dist.is_initialized():
        return ProcessGroup(rank, count, chosen)
    hosts = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    store = _connect(hosts=hosts)
    name = _rendezvous(store, rank, count)
    progress = Progress()
    progress.beat("joining the other processes")
    # A separate connection: the training's may be blocked.
    watchdog_store = PrefixStore(f"{name}/watch", _connect(hosts=False))
    watch = Watchdog(watchdog_store, rank, count, progress, end_worker, launcher=find_launcher())
    watch.start(stuck_after_seconds)
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    dist.init_process_group(
        "nccl" if chosen.type == "cuda" else "gloo",
        store=PrefixStore(f"{name}/training", store),
        rank=rank,
        world_size=count,
        timeout=_NO_TIMEOUT,
        device_id=chosen if chosen.type == "cuda" else None,
    )
    dist.barrier()
    return ProcessGroup(rank, count, chosen, progress, watch)


def _connect(*, hosts: bool) -> TCPStore:
    """Returns a connection to the store of torchrun's agent or of the first rank."""
    return TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        is_master=hosts,
        timeout=timedelta(seconds=_GATHERING_SECONDS),
    )


def _rendezvous(store: TCPStore, rank: int, count: int) -> str:
    """Returns a name that the ranks of this start share and no earlier start had."""
    # torchrun's store outlives restarted workers, and keeps the addresses of dead ones. Its own
    # count of restarts doesn't work as a name: it differs between the machines' agents.
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
            # A hello may come from a dead worker; only live ones answer.
            if store.check([f"hello/{other}"]):
                store.set(f"welcome/{store.get(f'hello/{other}').decode()}", mine)
            if store.check([f"ready/{mine}/{other}"]):
                missing.discard(other)
        time.sleep(_POLLING_SECONDS)
    return mine


def leave_processes(processes: ProcessGroup, *, has_ended: bool) -> None:
    """Closes what `join_processes` opened; `has_ended` is False after an error in this process."""
    if processes.watch is not None and has_ended:
        processes.watch.stop()
    # After an error the others may be inside an all-reduce, and closing would wait for them.
    if has_ended and dist.is_initialized():
        dist.destroy_process_group()


def choose_device(device: str, *, local_rank: int = 0) -> torch.device:
    """Returns the named device; `auto` is a GPU if there is one."""
    if read_device(device)[0] == "cuda" and not torch.cuda.is_available():
        raise MtkitError("this machine has no GPU that torch can use", "omit --gpus")
    found = find_device(device)
    return torch.device("cuda", local_rank) if found == torch.device("cuda") else found
