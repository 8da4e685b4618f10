"""An engine in several processes, each of which searches a shard of a batch.

Threads that share a small network's products wait for each other at each of them, a hundred times
per step; processes that each search a batch don't (docs/log.md). The processes are forks, started
when there is work for them: they share the weights' memory, and cost a few milliseconds.
"""

import contextlib
import os
import signal
import sys
import threading
import time
import traceback
import warnings
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from mtkit.child_processes import end_with_parent
from mtkit.errors import MtkitError
from mtkit.inference.engines.engine import (
    AligningEngine,
    AttendingEngine,
    ConstrainingEngine,
    EncodedSource,
    Engine,
    make_shards,
    restore_order,
    search_in_batches,
)
from mtkit.inference.translation import Hypothesis
from mtkit.recipe.inference import Inference
from mtkit.standard_streams import disconnect

_MAX_PROCESSES = 16
"""Maximum unless more are requested: each needs its own memory for a batch."""
_BATCHES_OF_A_PROCESS = 4
_MIN_SENTENCES = 8
"""Minimum per process: with fewer, the engine itself is as fast."""

_Found = list[list[Hypothesis]]


def open_processes(
    engine: Engine, device: torch.device, processes: int | Literal["auto"]
) -> Engine:
    """Returns an engine that searches in several processes, or the given one if one is enough.

    `auto` takes one per torch thread, at most 16. Forks only work on a CPU under Linux: elsewhere,
    system libraries don't survive a fork.
    """
    if sys.platform != "linux" or device.type != "cpu":
        return engine
    max_processes = min(torch.get_num_threads(), _MAX_PROCESSES)
    num_processes = max_processes if processes == "auto" else processes
    return engine if num_processes == 1 else ParallelEngine(engine, num_processes)


class ParallelEngine:
    """Searches in processes of one thread each; scores, and searches small batches, in this one.

    Only for a program that has one thread and doesn't fork otherwise, such as the command line: a
    fork waits forever for a lock that another thread held when it began. The processes end with
    this object, or with this process.

    Attributes:
        batches_at_once: Enough that processes seldom wait for the last one.
    """

    def __init__(self, engine: Engine, num_processes: int) -> None:
        self._engine = engine
        self._num_processes = num_processes
        self.max_tokens = engine.max_tokens
        self.batches_at_once = _BATCHES_OF_A_PROCESS * num_processes
        self._workers: list[_Worker] = []
        # Also held around the engine: a fork would wait forever for a lock in it.
        self._lock = threading.Lock()
        weakref.finalize(self, _end, self._workers)

    def search(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list[Hypothesis]]:
        """Returns each source's hypotheses; the longest sources first is fastest."""
        with self._lock:
            num_shards = min(self._num_processes, len(sources) // _MIN_SENTENCES)
            if num_shards < 2:
                return search_in_batches(self._engine, sources, settings)
            lengths = [len(source.tokens) for source in sources]
            batches = make_shards(lengths, settings.batch_tokens, num_shards)
            found = self._search_in_workers(
                [[sources[index] for index in batch] for batch in batches], settings
            )
        return restore_order(batches, found)

    def score(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """Returns the log-probability of each token of each given target, as the engine does."""
        with self._lock:
            return self._engine.score(source_batch, target_batch)

    def attend(
        self, source: Sequence[int], targets: Sequence[Sequence[int]]
    ) -> list[NDArray[np.float32]] | None:
        """Returns the engine's attention, or None if it has none."""
        if not isinstance(self._engine, AttendingEngine):
            return None
        with self._lock:
            return self._engine.attend(source, targets)

    @property
    def constrains(self) -> bool:
        """Whether the engine's outputs can be made to contain phrases."""
        return isinstance(self._engine, ConstrainingEngine) and self._engine.constrains

    @property
    def aligns(self) -> bool:
        """Whether the engine has attention for alignments."""
        return isinstance(self._engine, AligningEngine) and self._engine.aligns

    def align(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[NDArray[np.float32]]:
        """Returns what targets attend to, as the engine does."""
        assert isinstance(self._engine, AligningEngine), "callers check `aligns`"
        with self._lock:
            return self._engine.align(source_batch, target_batch)

    def _search_in_workers(
        self, batches: Sequence[Sequence[EncodedSource]], settings: Inference
    ) -> list[_Found]:
        """Returns each batch's result; the next batch goes to the first idle worker."""
        self._begin(min(self._num_processes, len(batches)))
        if not self._workers:
            return [self._engine.search(batch, settings) for batch in batches]
        found: list[_Found] = [[] for _ in batches]
        waiting = deque(range(len(batches)))
        at_work: dict[Connection, tuple[_Worker, int]] = {}
        idle = list(self._workers)
        try:
            while waiting or at_work:
                while waiting and idle:
                    worker, index = idle.pop(), waiting.popleft()
                    worker.send(batches[index], settings)
                    at_work[worker.connection] = worker, index
                for ready in wait(list(at_work)):
                    assert isinstance(ready, Connection)
                    worker, index = at_work.pop(ready)
                    found[index] = worker.receive()
                    idle.append(worker)
        except BaseException:
            # After an error or Ctrl-C, the other workers' results are no longer needed.
            _end(self._workers)
            raise
        return found

    def _begin(self, number: int) -> None:
        """Starts workers up to `number`, or as many as the system allows."""
        if self._workers and self._workers[0].parent != os.getpid():
            # This process is itself a fork: the workers belong to its parent.
            _end(self._workers)
        with contextlib.suppress(OSError):
            while len(self._workers) < number:
                self._workers.append(_start(self._engine, self._workers))


@dataclass(frozen=True)
class _Worker:
    """A process that searches, and the process that started it."""

    pid: int
    parent: int
    connection: Connection

    def send(self, batch: Sequence[EncodedSource], settings: Inference) -> None:
        try:
            self.connection.send((batch, settings))
        except OSError as error:
            raise self._explain_end() from error

    def receive(self) -> _Found:
        """Returns the worker's hypotheses; raises what the engine raised."""
        try:
            answer = self.connection.recv()
        except (EOFError, OSError) as error:
            raise self._explain_end() from error
        if isinstance(answer, MtkitError):
            raise answer
        if isinstance(answer, str):
            raise RuntimeError(f"a translation process failed:\n{answer}")  # noqa: TRY004
        found: _Found = answer
        return found

    def _explain_end(self) -> MtkitError:
        code = _find_exit_code(self.pid)
        return MtkitError(
            "a translation process ended unexpectedly"
            + ("" if code is None else f", exit code {code}"),
            "the machine may be out of memory: lower inference.processes or inference.batch_tokens",
        )


def _start(engine: Engine, others: Sequence[_Worker]) -> _Worker:
    """Returns a new worker; `others` are those that already run."""
    here, there = Pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of threads that a fork lacks: torch's, which the fork's single thread
        # never needs.
        warnings.simplefilter("ignore", DeprecationWarning)
        # Not multiprocessing's fork: it takes stdin's lock, and flushes its parent's output.
        pid = os.fork()
    if pid == 0:
        try:
            # If these ends stay open here, other workers don't notice when the parent ends.
            for connection in [worker.connection for worker in others] + [here]:
                connection.close()
            _work(engine, there)
        finally:
            os._exit(0)
    there.close()
    return _Worker(pid, os.getpid(), here)


def _end(workers: list[_Worker]) -> None:
    """Kills workers and clears the list; in a fork of their parent, only clears it."""
    for worker in workers:
        worker.connection.close()
        # If it was waited for before, its process id may belong to another process.
        with contextlib.suppress(ChildProcessError):
            if worker.parent == os.getpid() and os.waitpid(worker.pid, os.WNOHANG)[0] == 0:
                os.kill(worker.pid, signal.SIGKILL)
                _find_exit_code(worker.pid)
    workers.clear()


def _find_exit_code(pid: int) -> int | None:
    """Returns the exit code of a process that is about to end; None if it is unknown."""
    for _ in range(100):
        try:
            ended, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return None
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    return None


def _work(engine: Engine, connection: Connection) -> None:
    """The worker's main loop: searches batches until the connection closes."""
    # Only Unix has fcntl and forks.
    import fcntl  # noqa: PLC0415

    # If the parent's streams were closed, the pipe may have one of their numbers.
    connection = Connection(fcntl.fcntl(connection.fileno(), fcntl.F_DUPFD_CLOEXEC, 3))
    # Readers of the parent's output, and writers to its input, wait only for the parent.
    disconnect(0, 1)
    # Ctrl-C is for the parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()
    torch.set_num_threads(1)
    while True:
        try:
            batch, settings = connection.recv()
            connection.send(_search(engine, batch, settings))
        except (EOFError, OSError):
            return


def _search(
    engine: Engine, batch: Sequence[EncodedSource], settings: Inference
) -> _Found | MtkitError | str:
    """Returns the result, a user error, or the traceback of any other error."""
    try:
        return engine.search(batch, settings)
    except MtkitError as error:
        return error
    except Exception:  # noqa: BLE001 (whatever it is, the parent raises it)
        return traceback.format_exc()
