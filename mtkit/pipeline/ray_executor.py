"""Runs jobs on the nodes of a Ray cluster: each worker is an actor, and lost work is redone."""

import logging
import os
import secrets
import socket
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from mtkit.console import say, warn
from mtkit.errors import MtkitError, shorten
from mtkit.executor import (
    ITEMS_AHEAD,
    NO_MODELS,
    Executor,
    Item,
    JobBuilder,
    Result,
    WorkerNeeds,
    do_item,
)
from mtkit.files import digest_package
from mtkit.memory import return_freed_memory
from mtkit.programs import import_extra
from mtkit.version import __version__

_MAX_KILLED = 3
"""Workers that an item or a node may lose before it is given up."""
_SECONDS_BETWEEN_LOOKS = 5.0
"""Between two queries of the list of nodes."""
_SECONDS_BETWEEN_LINES = 30.0
_SECONDS_TO_WAIT = 1.0
_SECONDS_TO_CONNECT = 10.0
_SECONDS_TO_ANSWER = 30.0
_SECONDS_OF_PROBE = 86_400.0
"""An older probe was left by a command that was killed."""


@dataclass
class _Worker:
    actor: Any
    node: str
    host: str
    resources: dict[str, float]
    is_ready: bool = False
    waiting: deque[Any] = field(default_factory=deque)
    """Futures of its items, the one in progress first."""


class _IdleWorkers(list[_Worker]):
    """Workers between two runs."""

    def __del__(self) -> None:
        self.end()

    def end(self) -> None:
        """Ends them, unless the connection to the cluster is closed, which did."""
        ray = sys.modules.get("ray") if self else None
        if ray is not None and ray.is_initialized():
            for worker in self:
                ray.kill(worker.actor)
        self.clear()


@dataclass(frozen=True)
class RayExecutor(Executor):
    """Workers on all nodes of a cluster, which see the same files under the same paths.

    A lost worker or node costs its items, which others redo; a node that joins later gets workers.
    Workers stay for the next run if that needs the same resources, and end with the executor.

    Attributes:
        address: `auto`, or host and port of the head node.
        folder: What every node must see: the workspace, or where the output goes.
        max_workers: Maximum workers of a node; None for one per CPU.
        takes_nodes: Whether a worker takes all CPUs of its node, or one of its GPUs.
        skips: Whether an item that killed three workers is left out; otherwise it is an error.
        needs: What each worker needs.
        idle: Workers left by the previous run; shared by the executors of `fit`.
    """

    address: str
    folder: Path
    max_workers: int | None = None
    takes_nodes: bool = False
    skips: bool = False
    needs: WorkerNeeds = NO_MODELS
    idle: _IdleWorkers = field(default_factory=_IdleWorkers, compare=False)

    def run(
        self,
        build_job: JobBuilder[Item, Result],
        items: Iterable[Item],
        *,
        ordered: bool = True,
        on_loss: Callable[[Item], Result] | None = None,
    ) -> Generator[Result, None, None]:
        """Yields the job's result for each item; see `Executor`."""
        pool = _ActorPool(_connect(self.address), self, build_job, on_loss if self.skips else None)
        try:
            yield from pool.run(items, ordered=ordered)
        except BaseException:
            pool.close()
            raise
        pool.release()

    def fit(self, needs: WorkerNeeds) -> "RayExecutor":
        """Returns an executor whose workers have what they need; see `Executor`."""
        return replace(self, needs=needs)

    def place(self, resources: dict[str, float]) -> tuple[int, dict[str, float]]:
        """Returns how many workers a node has, and the resources of each, as Ray names them."""
        num_cpus, num_gpus = (int(resources.get(name, 0)) for name in ("CPU", "GPU"))
        holds_models = self.takes_nodes or self.needs.num_bytes > 0
        if num_gpus and holds_models and not self.needs.is_remote:
            each = max(1, num_cpus // num_gpus) if self.takes_nodes else 1
            return num_gpus, {"num_gpus": 1, "num_cpus": min(each, num_cpus)}
        is_alone = self.takes_nodes or self.needs.is_remote
        wanted = 1 if is_alone else min(num_cpus, self.max_workers or num_cpus)
        if self.needs.num_bytes:
            wanted = min(wanted, max(1, int(resources["memory"]) // self.needs.num_bytes))
        return wanted, {"num_cpus": num_cpus if self.takes_nodes else 1}


def _connect(address: str) -> ModuleType:
    """Returns the library, connected to a cluster."""
    # Usage would be reported to its makers, and messages of nodes printed to stdout.
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS_SKIP_REGEX": "."}
    ray: ModuleType = import_extra("ray", "cluster.address needs Ray, which isn't installed", "ray")
    if ray.is_initialized():
        return ray
    try:
        if address != "auto":
            _check_is_cluster(address)
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=False,
            _skip_env_hook=True,
        )
    except (OSError, ValueError, RuntimeError, subprocess.SubprocessError) as error:
        reason = shorten(str(error).strip().partition("\n")[0], 200)
        raise MtkitError(
            f"cluster.address: no Ray cluster of this version at {address}: {reason}",
            "start one: `ray start --head` on one machine, `ray start --address=HOST:6379` on "
            "the others",
        ) from error
    return ray


def _check_is_cluster(address: str) -> None:
    """Raises an error unless a cluster is at an address, where Ray would try for ever."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host, int(port)), _SECONDS_TO_CONNECT).close()
    # Anything may have answered. The class isn't public, so that only the time-out counts.
    code = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1])"
    command = [sys.executable, "-c", code, address]
    subprocess.run(command, capture_output=True, check=False, timeout=_SECONDS_TO_ANSWER)


class _RemoteWorker:
    """What an actor does, on any node."""

    def __init__(self) -> None:
        self._build_job: Callable[[], Callable[[Any], Any]] | None = None
        self._job: Callable[[Any], Any] | None = None

    def take_job(self, build_job: Callable[[], Callable[[Any], Any]] | None) -> None:
        """Takes the job of the items that follow, or none."""
        self._build_job, self._job = build_job, None
        return_freed_memory()

    def describe(self, probe: Path) -> tuple[str, str, bool]:
        """Returns mtkit's version on this node, its source's digest, and whether a file exists."""
        return __version__, digest_package(), probe.is_file()

    def apply(self, item: Any) -> tuple[bool, Any]:
        """Returns whether the job succeeded, and its result or error."""
        assert self._build_job is not None
        self._job, answer = do_item(self._build_job, self._job, item)
        return answer


@dataclass(frozen=True)
class _Assignment:
    index: int
    item: Any
    worker: _Worker


class _ActorPool:
    """The workers of one run, and what they work on."""

    def __init__(
        self,
        ray: ModuleType,
        executor: RayExecutor,
        build_job: Callable[[], Any],
        on_loss: Callable[[Any], Any] | None,
    ) -> None:
        self._ray, self._executor, self._on_loss = ray, executor, on_loss
        self._build_job = ray.put(build_job)
        self._workers: list[_Worker] = []
        self._starting: dict[Any, _Worker] = {}
        self._assignments: dict[Any, _Assignment] = {}
        self._to_do: deque[tuple[int, Any]] = deque()
        self._num_killed: Counter[int] = Counter()
        self._num_failed: Counter[str] = Counter()
        self._num_rows: Counter[str] = Counter()
        self._started_at = self._reported_at = time.monotonic()
        self._looked_at = 0.0
        executor.folder.mkdir(parents=True, exist_ok=True)
        for left in executor.folder.glob(".*.probe"):
            with suppress(FileNotFoundError):
                if time.time() - left.stat().st_mtime > _SECONDS_OF_PROBE:
                    left.unlink()
        self._probe = executor.folder / f".{secrets.token_hex(8)}.probe"

    def run(self, items: Iterable[Any], *, ordered: bool) -> Iterator[Any]:
        remaining = enumerate(items)
        done: dict[int, Any] = {}
        num_read = num_done = num_passed = 0
        is_read = False
        while not is_read or num_done < num_read:
            self._look_at_nodes()
            while worker := self._find_free():
                # Results that wait for an earlier one take memory.
                is_full = num_read - num_passed >= 2 * ITEMS_AHEAD * len(self._workers)
                if not self._to_do and not is_read and not is_full:
                    following = next(remaining, None)
                    is_read = following is None
                    if following is not None:
                        num_read += 1
                        self._to_do.append(following)
                if not self._to_do or (worker.waiting and self._is_suspect(self._to_do[0][0])):
                    break
                self._give(worker, *self._to_do.popleft())
            for index, result in self._take():
                done[index] = result
                num_done += 1
            while done and (num_passed in done or not ordered):
                yield done.pop(num_passed if ordered else next(iter(done)))
                num_passed += 1

    def close(self) -> None:
        self._probe.unlink(missing_ok=True)
        self._executor.idle.extend(self._workers)
        self._executor.idle.end()

    def release(self) -> None:
        """Leaves the workers, without their job, to the executor's next run."""
        self._probe.unlink(missing_ok=True)
        for worker in self._workers:
            if worker.is_ready:
                worker.actor.take_job.remote(None)
                self._executor.idle.append(worker)
            else:
                self._ray.kill(worker.actor)

    def _find_free(self) -> _Worker | None:
        free = [
            each
            for each in self._workers
            if each.is_ready
            and len(each.waiting) < ITEMS_AHEAD
            and not any(
                self._is_suspect(self._assignments[future].index) for future in each.waiting
            )
        ]
        return min(free, key=lambda each: len(each.waiting), default=None)

    def _is_suspect(self, index: int) -> bool:
        """Checks that a worker died with an item, which is then retried alone."""
        return self._num_killed[index] > 0

    def _give(self, worker: _Worker, index: int, item: Any) -> None:
        future = worker.actor.apply.remote(item)
        worker.waiting.append(future)
        self._assignments[future] = _Assignment(index, item, worker)

    def _take(self) -> Iterator[tuple[int, Any]]:
        """Yields the index and the result of each item that is done."""
        # A worker does its items in order.
        firsts = (worker.waiting[0] for worker in self._workers if worker.waiting)
        pending = [*firsts, *self._starting]
        if not pending:
            time.sleep(_SECONDS_TO_WAIT)
            return
        ready, _ = self._ray.wait(pending, num_returns=1, timeout=_SECONDS_TO_WAIT)
        for future in ready:
            worker = self._starting.get(future) or self._assignments[future].worker
            try:
                answer = self._ray.get(future)
            except self._ray.exceptions.ObjectLostError:
                task = self._assignments.pop(future)
                worker.waiting.remove(future)
                self._to_do.append((task.index, task.item))
            except self._ray.exceptions.RayTaskError:
                raise
            except self._ray.exceptions.RayError as error:
                yield from self._lose(worker, str(error))
            else:
                if self._starting.pop(future, None):
                    self._check(worker, *answer)
                    continue
                yield self._finish(future, *answer)

    def _finish(self, future: Any, is_result: bool, content: Any) -> tuple[int, Any]:
        if not is_result:
            raise content
        task = self._assignments.pop(future)
        task.worker.waiting.remove(future)
        self._num_rows[task.worker.host] += getattr(task.item, "num_rows", 1)
        self._report_rates()
        return task.index, content

    def _check(self, worker: _Worker, version: str, source: str, sees_folder: bool) -> None:
        """Checks a node's version of mtkit and its view of the folder."""
        if (version, source) != (__version__, digest_package()):
            raise MtkitError(
                f"cluster.address: node {worker.host} has mtkit {version} (source {source[:6]}), "
                f"and this machine {__version__} (source {digest_package()[:6]})",
                "install the same version on every node, and start Ray there again",
            )
        if not sees_folder:
            raise MtkitError(
                f"cluster.address: node {worker.host} doesn't see {self._executor.folder}",
                "put it on a file system that all nodes share, under the same path",
            )
        worker.is_ready = True

    def _lose(self, worker: _Worker, reason: str) -> Iterator[tuple[int, Any]]:
        """Gives a lost worker's items to others; yields the result of one that is left out."""
        self._workers.remove(worker)
        self._ray.kill(worker.actor)
        self._starting = {key: each for key, each in self._starting.items() if each is not worker}
        self._looked_at = 0.0
        if not worker.is_ready:
            self._num_failed[worker.node] += 1
            if self._num_failed[worker.node] == _MAX_KILLED:
                warn(f"node {worker.host}: no worker starts there: {reason.strip()}")
        tasks = [self._assignments.pop(future) for future in worker.waiting]
        is_node_lost = worker.node not in self._list_nodes()
        for task in tasks:
            # A result sent earlier may be lost, too: the first item isn't always the culprit.
            if not is_node_lost:
                self._num_killed[task.index] += 1
            if self._num_killed[task.index] < _MAX_KILLED:
                self._to_do.append((task.index, task.item))
                continue
            message = f"{_MAX_KILLED} workers were killed by {task.item}"
            if self._on_loss is None:
                raise MtkitError(
                    message,
                    "is there enough memory on each node? Blocks of corpora and of files can be "
                    "left out: --set cluster.skip_bad_blocks=true",
                )
            warn(f"{message}: left out (cluster.skip_bad_blocks)")
            yield task.index, self._on_loss(task.item)

    def _list_nodes(self) -> dict[str, Any]:
        return {each["NodeID"]: each for each in self._ray.nodes() if each["Alive"]}

    def _look_at_nodes(self) -> None:
        """Starts the workers that nodes lack; nodes come and go."""
        if time.monotonic() - self._looked_at < _SECONDS_BETWEEN_LOOKS:
            return
        self._looked_at = time.monotonic()
        nodes = self._list_nodes()
        if self._executor.needs.is_remote:
            nodes = dict(list(nodes.items())[:1])
        for name, node in nodes.items():
            num_workers, resources = self._executor.place(node["Resources"])
            self._adopt(name, num_workers, resources)
            num_there = sum(worker.node == name for worker in self._workers)
            if self._num_failed[name] < _MAX_KILLED:
                for _ in range(num_there, num_workers):
                    host = f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}"
                    self._start(name, host, resources)
        self._executor.idle.end()
        if not self._workers:
            raise MtkitError(
                "cluster.address: no node of the cluster can work",
                "the messages above say why; `ray status` shows nodes and resources",
            )

    def _adopt(self, node: str, num_workers: int, resources: dict[str, float]) -> None:
        """Reuses a node's workers from the previous run, and ends those of another size."""
        idle = self._executor.idle
        for worker in [each for each in idle if each.node == node][:num_workers]:
            if worker.resources == resources:
                idle.remove(worker)
                worker.actor.take_job.remote(self._build_job)
                self._workers.append(worker)

    def _start(self, node: str, host: str, resources: dict[str, float]) -> None:
        from ray.util.scheduling_strategies import (  # noqa: PLC0415
            NodeAffinitySchedulingStrategy,
        )

        there = NodeAffinitySchedulingStrategy(node, soft=False)
        kind = self._ray.remote(_RemoteWorker).options(scheduling_strategy=there, **resources)
        self._probe.touch()
        worker = _Worker(kind.remote(), node, host, resources)
        worker.actor.take_job.remote(self._build_job)
        self._workers.append(worker)
        self._starting[worker.actor.describe.remote(self._probe)] = worker

    def _report_rates(self) -> None:
        """Prints how many rows each node does in a second."""
        now = time.monotonic()
        if now - self._reported_at < _SECONDS_BETWEEN_LINES:
            return
        self._reported_at = now
        for host, count in sorted(self._num_rows.items()):
            say(f"node {host}: {count / (now - self._started_at):,.0f} rows per second")
