"""Several processes that train one model: launched by torchrun, joined by gradient sums."""

import json
import logging
import os
import re
import signal
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from mtkit.errors import MtkitError

Item = TypeVar("Item")

_SAVING_SECONDS = 600
_HANDED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# Where torchrun's agent looks for what a worker died of.
_ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
_FAULT = "mtkit"
_AGENT = "torch.distributed.elastic"
_GO_ON = "mend that; the same command goes on from the last checkpoint"
_LOST_PEER = re.compile(
    "(closed|reset) by peer|broken pipe|remote process|communicator was aborted", re.IGNORECASE
)
_DATED_LATER = 3_600
"""Seconds by which a worker that lost another one dates its end, since the first end is told."""


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
        summed = torch.split(flat, [p.numel() for p in parameters])
        for parameter, gradient in zip(parameters, summed, strict=True):
            parameter.grad = gradient.view_as(parameter)

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


def launch(arguments: Sequence[str], *, num_processes: int, needs_gpus: bool) -> None:
    """Runs `mtkit` with these arguments in several processes, until all of them have ended.

    Ctrl-C and SIGTERM are handed on to the workers, which save and end by themselves.

    Raises:
        MtkitError: More GPUs are wanted than this machine has, or a worker failed.
    """
    check_gpus(num_processes if needs_gpus else 0)
    for_workers = {
        "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // num_processes)),
        # A save may take longer than torchrun's half minute of patience after a signal. Torch reads
        # this from 2.12 on.
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(_SAVING_SECONDS),
    }
    added = {name: value for name, value in for_workers.items() if name not in os.environ}
    os.environ.update(added)
    # Its own lines tell of signals and exit codes that are told below; each module has a level.
    for name in [n for n in logging.root.manager.loggerDict if n.startswith(_AGENT)]:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    handlers = {number: signal.getsignal(number) for number in _HANDED_ON}
    with TemporaryDirectory(prefix="mtkit-workers-") as folder:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=num_processes,
            run_id=uuid.uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            max_restarts=0,
            logs_specs=DefaultLogsSpecs(log_dir=folder),
        )
        try:
            elastic_launch(config, sys.executable)("-m", "mtkit", *arguments)
        except SignalException:
            return
        except ChildFailedError as error:
            raise _explain(error) from error
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            for name in added:
                del os.environ[name]


@contextmanager
def telling_launcher() -> Iterator[None]:
    """Hands a worker's MtkitError to the process that launched it, which prints it once.

    An OSError, a full disk for one, is handed over as what the system said and where. A worker that
    lost another one hands over that, dated later than what the other one died of.
    """
    try:
        yield
    except (MtkitError, OSError, RuntimeError) as error:
        path = os.environ.get(_ERROR_FILE)
        is_lost = isinstance(error, RuntimeError)
        if not path or (is_lost and not _LOST_PEER.search(str(error))):
            raise
        if isinstance(error, MtkitError):
            fault = [error.message, error.hint]
        elif is_lost:
            # The launcher ends the others as soon as one has ended: let the first come first.
            time.sleep(1)
            fault = [f"lost the other processes: {error}", _GO_ON]
        else:
            fault = [str(error), _GO_ON]
        extra = {"timestamp": int(time.time()) + _DATED_LATER * is_lost, _FAULT: fault}
        content = {"message": {"message": fault[0], "extraInfo": extra}}
        Path(path).write_text(json.dumps(content), "utf-8")
        raise SystemExit(1) from error


def _explain(error: ChildFailedError) -> MtkitError:
    """Returns what the worker that failed first said, or how it died."""
    rank, failure = error.get_first_failure()
    content = failure.error_file_data.get("message")
    if isinstance(content, dict) and _FAULT in content.get("extraInfo", {}):
        return MtkitError(*content["extraInfo"][_FAULT])
    end = failure.signal_name() if failure.exitcode < 0 else f"exit code {failure.exitcode}"
    return MtkitError(
        f"worker {rank} (process {failure.pid}) died: {end}",
        "what it printed stands above; the same command goes on from the last checkpoint",
    )


def check_gpus(num_wanted: int) -> None:
    """Returns if this machine has so many GPUs.

    Raises:
        MtkitError: It has fewer.
    """
    num_gpus = torch.cuda.device_count()
    if num_gpus >= num_wanted:
        return
    found = f"{num_gpus} GPU{'s' * (num_gpus != 1)}" if num_gpus else "no GPU"
    raise MtkitError(
        f"--gpus {num_wanted}: this machine has {found} that torch can use",
        f"use --gpus {num_gpus}"
        if num_gpus
        else f"train on its processor: leave --gpus out, or --processes {os.cpu_count() or 1}",
    )
