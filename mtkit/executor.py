"""A job over many items: results in order or as completed, memory bounded.

Whoever has such a job knows an `Executor`, and not how many workers do it or where they are.
"""

import pickle
import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from queue import SimpleQueue
from typing import Any, BinaryIO, Protocol, TypeVar

from mtkit.child_processes import describe_end, prepare_start
from mtkit.errors import MtkitError

Item = TypeVar("Item")
Result = TypeVar("Result")
JobBuilder = Callable[[], Callable[[Item], Result]]

_FEW_ITEMS = 2
"""No more than these are done here: starting processes would take longer."""
_ITEMS_AHEAD = 2
"""Items handed out per worker: one it works on and one that waits."""


class Executor(Protocol):
    """Runs a job over many items, in as many workers as it has."""

    def run(
        self, build_job: JobBuilder[Item, Result], items: Iterable[Item], *, ordered: bool = True
    ) -> Iterator[Result]:
        """Yields the job's result for each item; the same whatever the number of workers.

        Closing the iterator ends the workers, whatever they are doing.

        Args:
            build_job: Makes the job, once in each worker; it, items and results must be picklable
                (a `functools.partial` of a module's function is).
            items: What to work on; read a few ahead of the results, so that they may be endless.
            ordered: Whether results come in the order of items; if not, in the order in which they
                are completed.

        Raises:
            MtkitError: A worker died; what the job raises.
            OSError: What the job raises; no worker can be started.
        """
        ...

    def limit(self, max_workers: int | None) -> "Executor":
        """Returns one with at most so many workers; with as many where it is None."""
        ...


@dataclass(frozen=True)
class LocalExecutor(Executor):
    """Workers on this machine: child processes that tasks go to through pipes.

    They end with the run, and with the process that started them, however it ends. Ctrl-C reaches
    that one alone.

    Attributes:
        num_workers: Processes; with 1, or with hardly any items, all is done in this one.
        hint: What to do where a worker dies.
    """

    num_workers: int
    hint: str = "if it ran out of memory: --workers 1"

    def run(
        self, build_job: JobBuilder[Item, Result], items: Iterable[Item], *, ordered: bool = True
    ) -> Iterator[Result]:
        """Yields the job's result for each item, as an `Executor` does."""
        remaining = iter(items)
        first = list(islice(remaining, _FEW_ITEMS + 1))
        if self.num_workers == 1 or len(first) <= _FEW_ITEMS:
            yield from map(build_job(), chain(first, remaining))
            return
        started: list[_Worker] = []
        idle: SimpleQueue[_Worker] = SimpleQueue()
        following: SimpleQueue[Future[Result]] = SimpleQueue()
        num_pending = 0

        def work(item: Item) -> Result:
            worker = idle.get()
            try:
                worker.send(item)
                result: Result = worker.receive()
            finally:
                idle.put(worker)
            return result

        with ThreadPoolExecutor(self.num_workers) as threads:
            try:
                for _ in range(self.num_workers):
                    started.append(_Worker(self.hint))
                    started[-1].send(build_job)
                    idle.put(started[-1])
                for item in chain(first, remaining):
                    future = threads.submit(work, item)
                    if ordered:
                        following.put(future)
                    else:
                        future.add_done_callback(following.put)
                    num_pending += 1
                    if num_pending > self.num_workers * _ITEMS_AHEAD:
                        yield following.get().result()
                        num_pending -= 1
                for _ in range(num_pending):
                    yield following.get().result()
            finally:
                # Before the threads are waited for, which wait for them.
                threads.shutdown(wait=False, cancel_futures=True)
                for worker in started:
                    worker.stop()

    def limit(self, max_workers: int | None) -> "LocalExecutor":
        """Returns one with at most so many workers; with as many where it is None."""
        return replace(self, num_workers=min(self.num_workers, max_workers or self.num_workers))


ONE_WORKER = LocalExecutor(1)
"""Does everything in this process."""


class _Worker:
    """A child process that applies a job to what it is sent."""

    def __init__(self, hint: str) -> None:
        self._hint = hint
        # The processes are as many as the cores.
        command, options = prepare_start(__name__, OMP_NUM_THREADS="1")
        self._process = subprocess.Popen(command, **options)

    def send(self, content: Any) -> None:
        """Sends what makes the job, or else an item."""
        assert self._process.stdin is not None
        try:
            pickle.dump(content, self._process.stdin, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._explain_end() from error

    def receive(self) -> Any:
        """Returns the job's result, or raises what it raised."""
        assert self._process.stdout is not None
        try:
            is_result, content = pickle.load(self._process.stdout)
        except (EOFError, pickle.UnpicklingError) as error:
            raise self._explain_end() from error
        if not is_result:
            raise content
        return content

    def stop(self) -> None:
        """Ends the process, whatever it was doing."""
        self._process.kill()
        # Closes its pipes and waits for its end; what it never read is of no interest any more.
        with suppress(BrokenPipeError), self._process:
            pass

    def _explain_end(self) -> MtkitError:
        how = describe_end(self._process.wait())
        return MtkitError(f"a worker process {how} while it was working", self._hint)


def main(tasks: BinaryIO, results: BinaryIO) -> None:
    """Applies a job to what comes: the main function of a worker."""
    build_job = pickle.load(tasks)
    job: Callable[[Any], Any] | None = None
    while True:
        item = pickle.load(tasks)
        try:
            job = job or build_job()
            answer = (True, job(item))
        except (MtkitError, OSError) as error:
            answer = (False, error)
        pickle.dump(answer, results, pickle.HIGHEST_PROTOCOL)
        results.flush()
